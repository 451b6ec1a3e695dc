/* Search for pages that are opened as files: browsers start no worker there, so an unseen frame does its work. */
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const page = this.frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source !== page) return;
        const passed = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(passed);
        if (this.onmessage) this.onmessage(passed);
      });
      page.document.open();
      page.document.write(
        `<html><body><script>
          postMessage = (data) => parent.postMessage(data, "*");
          importScripts = (...urls) => Promise.all(urls.map((url) => new Promise((done) => {
            const script = document.createElement("script");
            script.src = url;
            script.onload = done;
            document.body.appendChild(script);
          })));
        <\/script><script src="${url}"><\/script></body></html>`
      );
      page.document.close();
      this.ready = new Promise((done) => page.addEventListener("load", done)); // open() would have forgotten it
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
