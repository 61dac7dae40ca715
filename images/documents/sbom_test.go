package documents

import (
	"encoding/binary"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/package-url/packageurl-go"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/verify"
)

func TestPackagePURL(t *testing.T) {
	t.Parallel()
	debian, rhel := &ImageContent{systemID: "debian", systemVersion: "12"}, &ImageContent{systemID: "rhel", systemVersion: "9.4"}
	for _, c := range []struct {
		image *ImageContent
		p     packages.Installed
		want  string
	}{
		{debian, packages.Installed{Name: "kmod", Version: "30", Arch: "amd64", Kind: "deb", Source: "kmod", SourceVersion: "30"},
			"pkg:deb/debian/kmod@30?arch=amd64&distro=debian-12"},
		{debian, packages.Installed{Name: "libstdc++6", Version: "1:12.2.0-14+deb12u1", Arch: "amd64", Kind: "deb", Source: "gcc-12",
			SourceVersion: "1:12.2.0-14+deb12u1"},
			"pkg:deb/debian/libstdc%2B%2B6@1:12.2.0-14%2Bdeb12u1?arch=amd64&distro=debian-12&upstream=gcc-12"},
		{debian, packages.Installed{Name: "cpp", Version: "4:12", Arch: "all", Kind: "deb", Source: "gcc-defaults", SourceVersion: "1.203"},
			"pkg:deb/debian/cpp@4:12?arch=all&distro=debian-12&upstream=gcc-defaults%401.203"},
		{rhel, packages.Installed{Name: "bash", Version: "1:5.1.8-6.el9", Arch: "x86_64", Kind: "rpm", Source: "bash",
			SourceVersion: "5.1.8-6.el9"},
			"pkg:rpm/redhat/bash@5.1.8-6.el9?arch=x86_64&distro=rhel-9.4&epoch=1&upstream=bash-5.1.8-6.el9.src.rpm"},
	} {
		got := c.image.packagePURL(c.p)
		assert.Equal(t, c.want, got)
		parsed := require.Value(packageurl.FromString(got))(t)
		assert.Equal(t, c.p.Name, parsed.Name)
	}
	got := purl("generic", "a b", "", map[string]string{"download_url": "https://x/?a=b&c=d#e", "none": ""})
	assert.Equal(t, "pkg:generic/a%20b?download_url=https://x/%3Fa%3Db%26c%3Dd%23e", got)
	parsed := require.Value(packageurl.FromString(got))(t)
	assert.Equal(t, "https://x/?a=b&c=d#e", parsed.Qualifiers.Map()["download_url"])
}

// TestBuildInfo: the section is read as the library reads it.
func TestBuildInfo(t *testing.T) {
	t.Parallel()
	f := require.Value(os.Open(require.Value(os.Executable())(t)))(t)
	t.Cleanup(func() { _ = f.Close() })
	program := require.Value(elffile.Read(f, require.Value(f.Stat())(t).Size()))(t)
	got := parseBuildInfo(require.Value(program.Section(".go.buildinfo", maxBuildInfo))(t))
	want, ok := debug.ReadBuildInfo()
	assert.Equal(t, true, ok && got != nil)
	assert.Same(t, want.Deps, got.Deps)
	assert.Same(t, want.Main, got.Main)
	assert.Equal(t, want.GoVersion, got.GoVersion)
}

func FuzzBuildInfo(f *testing.F) {
	f.Add(binary.AppendUvarint(nil, 3))
	f.Add(append(binary.AppendUvarint(nil, 1<<60), 'x'))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, rest := text(data); len(s)+len(rest) > len(data) {
			t.Errorf("%d bytes gave %d and %d", len(data), len(s), len(rest))
		}
		parseBuildInfo(data)
	})
}

// TestSameID: components whose ids would be equal stay apart, whatever comes first.
func TestSameID(t *testing.T) {
	t.Parallel()
	i := &ImageContent{Inspection: verify.Inspection{Arch: "amd64"}}
	for _, name := range []string{"lib+", "lib-", "lib+"} {
		i.Packages = append(i.Packages, packages.Installed{Name: name, Version: "1", Arch: "amd64", Kind: "deb"})
	}
	g := newGraph(Model{Images: []*ImageContent{i}})
	for _, id := range []string{"Package-amd64-deb-lib--1-amd64", "Package-amd64-deb-lib--1-amd64-2"} {
		if _, ok := g.components[id]; !ok {
			t.Errorf("no component %s", id)
		}
	}
	assert.Equal(t, 4, len(g.components)) // image, system, and the two
}

// TestExpression: names of distributions become an expression of SPDX; what is none is one licence of its own.
func TestExpression(t *testing.T) {
	t.Parallel()
	ref := regexp.MustCompile(`LicenseRef-[A-Za-z0-9.-]+-[0-9a-f]{8}`)
	for words, want := range map[string]string{
		"GPL-2+": "GPL-2.0-or-later", "LGPL-2.1": "LGPL-2.1-only", "GPLv3+": "GPL-3.0-or-later", "GPL-2.0-only": "GPL-2.0-only", "GPL-9": "REF", "Expat": "MIT",
		"GPL-2+ or MIT": "GPL-2.0-or-later OR MIT", "MIT AND (ISC OR zlib)": "MIT AND (ISC OR Zlib)", "GPL-2 or Expat, and ISC": "(GPL-2.0-only OR MIT) AND (ISC)",
		"GPL-2+ with OpenSSL exception": "REF", "BSD and ASL 2.0": "REF AND Apache-2.0", "(MIT": "REF", "MIT) or ISC": "REF", "MIT or": "REF", "a (b) c": "REF", "() and MIT": "REF", "\x1b[31m": "REF",
		strings.Repeat("MIT, or ", 50_000) + "MIT": "REF",
	} {
		g := newGraph(Model{Images: []*ImageContent{{}}})
		assert.Equalf(t, want, ref.ReplaceAllString(g.expression(words, nil), "REF"), "%q", words)
		assert.Equalf(t, strings.Contains(want, "REF"), len(g.licences) > 0, "%q", words)
	}
	names, texts := debianLicences("Format: x\nLicense: MIT\n\nFiles: *\nCopyright: me\nLicense: GPL-2+\n\nFiles: a\nLicense: own\n text\n\nLicense: GPL-2+\n the text\n")
	assert.Same(t, []string{"GPL-2+", "MIT", "own"}, names)
	assert.Same(t, map[string]string{"own": " text", "GPL-2+": " the text"}, texts)
	names, _ = debianLicences("This is a package.\nLicense: GPL\n")
	assert.Equal(t, 0, len(names))
}

// TestOthers: every file of the driver that a list lacks is named.
func TestOthers(t *testing.T) {
	t.Parallel()
	i := &ImageContent{Inspection: verify.Inspection{Driver: "535.261.03", Programs: []string{"/usr/bin/nvidia-smi"}}}
	for p, want := range map[string]bool{
		"/usr/bin/nvidia-bug-report.sh": true, "/usr/share/vulkan/icd.d/nvidia_icd.json": true, "/usr/bin/nvidia-smi": false, "/usr/src/nvidia-535.261.03/nvidia/nv.c": false, "/etc/passwd": false,
	} {
		assert.Equalf(t, want, i.isOther(p), "%s", p)
	}
}
