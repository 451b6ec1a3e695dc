// The link of an invitation ends with # and the invitation, which a browser sends to nobody.  It is put into the form,
// taken out of the address and sent in the body of a request.
"use strict";

const invitation = location.hash.slice(1);
if (invitation) {
  history.replaceState(null, "", location.pathname);
  const field = document.getElementById("invitation");
  field.value = invitation;
  field.form.requestSubmit();
}
