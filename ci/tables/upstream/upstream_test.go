package main

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// excerpts have the lines of the real sources that are read, in their form.
func excerpts() fstest.MapFS {
	all := fstest.MapFS{}
	for name, text := range map[string]string{
		"open/535.288.01/README.md":              "This is currently Linux kernel 3.10 or newer.\n",
		"open/535.288.01/conftest.sh":            "pci_rebar_get_possible_sizes)\n",
		"open/535.288.01/nv-pci.c":               "r = pci_resize_resource(pci_dev, bar, size);\n",
		"open/580.126.09/README.md":              "This is currently Linux kernel 4.15 or newer.\n",
		"open/580.126.09/conftest.sh":            "pci_resize_resource_has_exclude_bars_arg)\nzone_device_page_init_has_order_arg)\n",
		"open/580.126.09/uvm_hmm.c":              "#define ZONE_DEVICE_PAGE_INIT(page)   zone_device_page_init(page, 0)\n",
		"open/580.105.08/README.md":              "This is currently Linux kernel 4.15 or newer.\n",
		"open/580.105.08/conftest.sh":            "pci_rebar_get_possible_sizes)\n",
		"open/580.105.08/nv-pci.c":               "r = pci_resize_resource(pci_dev, bar, size);\n",
		"open/580.105.08/uvm.c":                  "get_dev_pagemap(page_to_pfn(page), NULL);\n",
		"open/580.126.09/nv-pci.c":               "r = pci_resize_resource(pci_dev, bar, size, 0);\n",
		"gentoo/nvidia-drivers-595.91.07.ebuild": "EAPI=8\nMODULES_KERNEL_MAX=7.2\n",
		"nixpkgs/default.nix": "version = \"595.99.02\";\nsha256_64bit = \"sha256-6HR3lYv3YwcFSTJL1a1slI66btIQ5EAFs+/4SUD24ew=\";\n" +
			"version = \"340.108\";\nsha256_64bit = \"06xp6c0sa7v1b82gf0pq0i5p0vdhmm3v964v0ypw36y0nzqx8wf6\";\n",
		"redist/index.html": "<a href=\"redistrib_470.141.10.json\">redistrib_470.141.10.json</a>\n<a href=\"redistrib_615.71.10.json\">redistrib_615.71.10.json</a>\n",
	} {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// TestCompare: the tables agree with the excerpts, and each fact of a source that they lack is one line.
func TestCompare(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	assert.Equal(t, "", strings.Join(require.Value(compare(excerpts(), at))(t).differs, "\n"))
	const ebuild, nix = "gentoo/nvidia-drivers-595.91.07.ebuild", "nixpkgs/default.nix"
	for _, c := range []struct{ file, old, new, want string }{
		{"open/580.126.09/README.md", "kernel 4.15", "kernel 4.18", "needs kernel 4.18, branches.tsv says \"4.15\" of R580"},
		{"open/580.126.09/conftest.sh", "pci_resize_resource", "x", "driver 580.126.09 calls pci_resize_resource without conftest.sh, and is not among the drivers"},
		{"open/580.126.09/conftest.sh", "has_order_arg", "has_pgmap_and_order_args", "driver 580.126.09 is among the drivers of the interface zone_device_page_init"},
		{"open/580.105.08/conftest.sh", "pci_rebar", "get_dev_pagemap_has_pgmap_arg)\npci_rebar", "driver 580.105.08 is among the drivers of the interface get_dev_pagemap"},
		{"open/535.288.01/nv-pci.c", "pci_resize_resource(", "x(", "driver 535.288.01 is among the drivers of the interface pci_resize_resource"},
		{ebuild, "MAX=7.2", "MAX=7.3", `595.91.07 compiles up to kernel 7.3, releases.tsv says "7.2"`},
		{nix, "595.99.02", "595.99.09", "releases.tsv lacks 595.99.09"},
		{nix, "6HR3", "7HR3", "595.99.02 for amd64 has sha256 ec7477"},
		{"redist/index.html", "redistrib_615.71.10", "redistrib_615.71.11", "releases.tsv lacks 615.71.11"},
	} {
		folder := excerpts()
		changed := strings.ReplaceAll(string(folder[c.file].Data), c.old, c.new)
		folder[c.file] = &fstest.MapFile{Data: []byte(changed)}
		got := require.Value(compare(folder, at))(t).differs
		assert.Equalf(t, 1, len(got), "%s: %q", c.want, got)
		assert.Contains(t, strings.Join(got, "\n"), c.want)
	}
	for _, file := range []string{ebuild, nix, "redist/index.html"} {
		folder := excerpts()
		folder[file] = &fstest.MapFile{Data: []byte("<html>moved</html>")}
		assert.ErrorIsf(t, assert.Err(compare(folder, at)), errShape, "%s", file)
		delete(folder, file)
		assert.ErrorIsf(t, assert.Err(compare(folder, at)), fs.ErrNotExist, "%s", file)
	}
}
