# make demo   set everything up, then record, export and validate simulated episodes (into demo/)
# make test   set everything up, then run all the tests
#
# Needs Linux on x86_64, Python 3.11 or 3.12 with venv and headers, a C++ compiler, make and git.
# Everything else is installed into $(VENV).

VENV ?= .venv
DEMO ?= demo
PYTHON ?= $(shell for p in python3 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null \
	&& { echo $$p; break; }; done)

SOURCES := $(shell find piper_collect config launch msg rviz srv urdf scripts cmake -type f -not -name '*.pyc' -not -name '*.tmp') \
	CMakeLists.txt README.md package.xml pyproject.toml setup.py

# names of files in rules have their spaces escaped; in recipes they are quoted
space := $(subst ,, )
INSTALLED := $(subst $(space),\ ,$(VENV))/.installed

.PHONY: demo test clean

demo: $(INSTALLED)
	"$(VENV)/bin/piper-collect" demo --output "$(DEMO)"

test: $(INSTALLED)
	"$(VENV)/bin/ruff" check
	"$(VENV)/bin/ruff" format --check
	"$(VENV)/bin/mypy"
	"$(VENV)/bin/python" scripts/run_tests.py $(PYTEST_ARGS)

$(INSTALLED): $(SOURCES)
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or 3.12 is needed; set PYTHON=/path/to/python3.12" >&2; exit 1; }
	test -x "$(VENV)/bin/pip" || "$(PYTHON)" -m venv "$(VENV)"
	"$(VENV)/bin/python" -m pip install --quiet --disable-pip-version-check '.[test]'
	@touch "$@"

clean:
	rm -rf "$(VENV)" build piper_collect.egg-info
