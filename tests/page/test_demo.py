"""`dpinfer demo --open`: from nothing to the page of a desk in one command."""

from helpers.windows import Window, started


def test_the_demo_opens_a_desk_with_its_table(chromium, tmp_path):
    folder = tmp_path / "demo"
    command = ["demo", "--out", str(folder), "--open"]
    with started(command, folder / "desk", "true") as site:
        window = Window(chromium, site)
        window.go("/t/visits")
        assert "RAND Health Insurance Experiment" in window.words()
        window.go("/t/visits/ask")
        assert "analyst" in window.words()
        assert window.faults == []
        window.context.close()
    with started(command, folder / "desk", "true") as site:  # what is there is opened again
        window = Window(chromium, site)
        window.go("/t/visits")
        assert "RAND Health Insurance Experiment" in window.words()
        window.context.close()
