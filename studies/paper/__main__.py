"""``python -m studies.paper``: see `studies.paper.run`."""

from studies.paper.run import main

raise SystemExit(main())
