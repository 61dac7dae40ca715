package rpmfile

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// needs skips a test of the real tier if it cannot run.
func needs(t *testing.T, tools ...string) {
	t.Helper()
	if os.Getenv("DRIVER_E2E") != "1" {
		t.Skip("runs real tools: set DRIVER_E2E=1")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
}

// run runs a real tool and returns its output.
func run(t *testing.T, stdin io.Reader, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), append([]string{"LC_ALL=C.UTF-8"}, env...)...)
	cmd.Stdin = stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// TestVersionsReal compares with librpm through its Lua function rpm.vercmp, in one process.
func TestVersionsReal(t *testing.T) {
	needs(t, "rpm")
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"0", "1", "2", "9", "10", "01", "00", "a", "b", "rc", "Z", ".", ".", "..", "_", "+", "~", "~", "^", "^", "git", "el9", "20240101", "é", "99999999999999999999", "/", ":"}
	word := func() string {
		var b strings.Builder
		for range random.IntN(8) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		return b.String()
	}
	var pairs [][2]string
	for i := range 20000 {
		a, b := word(), word()
		if i%2 == 0 && len(a) > 0 { // similar to each other
			at := random.IntN(len(a))
			b = a[:at] + parts[random.IntN(len(parts))] + a[at:]
		}
		pairs = append(pairs, [2]string{a, b})
	}
	for _, line := range ordered {
		for _, other := range ordered {
			for _, a := range line {
				pairs = append(pairs, [2]string{a, other[0]})
			}
		}
	}
	var in strings.Builder
	for _, p := range pairs {
		fmt.Fprintf(&in, "%s %s\n", hex.EncodeToString([]byte(p[0])), hex.EncodeToString([]byte(p[1])))
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "pairs"), []byte(in.String()), 0o600))
	// rpm.vercmp of 4.18 takes whole versions with epoch and release, so the versions above have neither hyphens
	// nor leading "digits:".
	script := `local function text(h) return (h:gsub("..", function(x) return string.char(tonumber(x, 16)) end)) end
local out = io.open("` + dir + `/answers", "w")
for line in io.lines("` + dir + `/pairs") do
  local a, b = line:match("^(%x*) (%x*)$")
  local ok, c = pcall(rpm.vercmp, text(a), text(b))
  out:write(ok and c or "invalid", "\n")
end
out:close()`
	file := filepath.Join(dir, "compare.lua")
	must(t, os.WriteFile(file, []byte(script), 0o600))
	run(t, nil, nil, "rpm", "--eval", "%{lua: dofile(\""+file+"\")}")
	out := strings.Fields(string(readFile(t, filepath.Join(dir, "answers"))))
	if len(out) != len(pairs) {
		t.Fatalf("%d answers to %d questions", len(out), len(pairs))
	}
	wrong, compared := 0, 0
	for i, p := range pairs {
		if out[i] == "invalid" { // empty, or empty before a hyphen
			continue
		}
		compared++
		want, err := strconv.Atoi(out[i])
		must(t, err)
		if got := Compare(splitEVR(p[0]), splitEVR(p[1])); got != sign3(want) {
			if wrong++; wrong < 20 {
				t.Errorf("%q and %q: %d, librpm says %d", p[0], p[1], got, want)
			}
		}
	}
	if t.Logf("%d pairs", compared); compared < len(pairs)/2 {
		t.Errorf("librpm compared only %d of %d", compared, len(pairs))
	}
}

// TestMatchesReal asks rpm which of many requirements of one package another package meets.
func TestMatchesReal(t *testing.T) {
	needs(t, "rpm", "rpmbuild")
	random := rand.New(rand.NewPCG(3, 4))
	some := func(name string) Relation {
		op := []string{"", "<", "<=", "=", "=", ">=", ">"}[random.IntN(7)]
		if op == "" {
			return Relation{Name: name}
		}
		evr := EVR{Version: []string{"1", "2", "1.0", "1~rc", "1^git"}[random.IntN(5)]}
		evr.Epoch = []string{"", "", "0", "1"}[random.IntN(4)]
		evr.Release = []string{"", "", "1", "2.el9"}[random.IntN(4)]
		return Relation{name, op, evr}
	}
	dir := t.TempDir()
	spec := func(name, tag string, all []Relation) string {
		var b strings.Builder
		fmt.Fprintf(&b, "Name: %s\nVersion: 1\nRelease: 1\nSummary: x\nLicense: MIT\nBuildArch: noarch\n", name)
		for _, r := range all {
			fmt.Fprintf(&b, "%s: %s\n", tag, r)
		}
		b.WriteString("%description\nx\n%files\n")
		file := filepath.Join(dir, name+".spec")
		must(t, os.WriteFile(file, []byte(b.String()), 0o600))
		run(t, nil, []string{"HOME=" + dir}, "rpmbuild", "-bb", "--quiet", "--define", "_topdir "+dir, file)
		return filepath.Join(dir, "RPMS/noarch/"+name+"-1-1.noarch.rpm")
	}
	var wants, haves []Relation
	for i := range 3000 {
		name := fmt.Sprintf("n%d", i)
		wants, haves = append(wants, some(name)), append(haves, some(name))
	}
	needing, giving := spec("needing", "Requires", wants), spec("giving", "Provides", haves)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "rpm", "--root", t.TempDir(), "--dbpath", "/db", "--nosignature", "-i", "--test", needing, giving)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("Failed dependencies")) {
		t.Fatalf("rpm finds nothing missing: %v\n%s", err, out)
	}
	missing := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if text, _, ok := strings.Cut(line, " is needed by"); ok {
			missing[strings.TrimSpace(text)] = true
		}
	}
	for i, want := range wants {
		if got := want.Matches(haves[i]); got == missing[want.String()] {
			t.Errorf("%s met by %s: %v, rpm says %v", want, haves[i], got, !got)
		}
	}
	t.Logf("%d of %d are not met", len(missing), len(wants))
}

const testSpec = `Name: everything
Epoch: 2
Version: 1.0~rc1
Release: 3^git1
Summary: What a package can have
License: MIT
Requires: (bash or dash), rpm >= 4, /bin/sh
Provides: api(everything) = 5
Conflicts: nothing < 1
Obsoletes: old-everything <= 0:9-1
%description
Test.
%install
mkdir -p %{buildroot}/usr/bin "%{buildroot}/usr/share/with space/sub" %{buildroot}/var/log %{buildroot}/usr/many %{buildroot}/etc
printf one > %{buildroot}/usr/bin/one
printf same > %{buildroot}/usr/bin/hard1
ln %{buildroot}/usr/bin/hard1 %{buildroot}/usr/bin/hard2
ln %{buildroot}/usr/bin/hard1 "%{buildroot}/usr/share/with space/hard 3"
: > %{buildroot}/usr/bin/empty
: > %{buildroot}/usr/bin/empty1
ln %{buildroot}/usr/bin/empty1 %{buildroot}/usr/bin/empty2
ln -s one %{buildroot}/usr/bin/relative
ln -s /usr/bin/one %{buildroot}/usr/bin/absolute
printf p > %{buildroot}/usr/bin/ping
printf q > %{buildroot}/usr/bin/capable
printf s > %{buildroot}/usr/bin/su
printf "a b" > "%{buildroot}/usr/share/with space/a b.txt"
printf c > %{buildroot}/etc/everything.conf
printf l > %{buildroot}/var/log/ghost
for i in $(seq 1500); do echo $i > %{buildroot}/usr/many/file-$i; done
head -c 3000000 /dev/zero > %{buildroot}/usr/share/zeros
head -c 300001 /dev/urandom > %{buildroot}/usr/share/noise
%files
/usr/bin/one
/usr/bin/hard*
/usr/bin/empty*
/usr/bin/relative
/usr/bin/absolute
%caps(cap_net_raw=ep) /usr/bin/ping
%caps(cap_net_admin,cap_bpf,cap_sys_nice=eip) /usr/bin/capable
%attr(4755,root,root) /usr/bin/su
%dir %attr(0750,daemon,daemon) "/usr/share/with space"
%attr(6755,daemon,daemon) "/usr/share/with space/a b.txt"
"/usr/share/with space/hard 3"
"/usr/share/with space/sub"
/usr/share/zeros
/usr/share/noise
%dir %attr(0700,root,root) /usr/many
/usr/many/*
%config(noreplace) /etc/everything.conf
%ghost /var/log/ghost
`

// rpmbuilt are packages built with rpmbuild, one for each compression, signed with a gpg key.
type rpmbuilt struct {
	dir, key string
	files    map[string]string // by compression
	env      []string
}

func makeReal(t *testing.T) rpmbuilt {
	t.Helper()
	r := rpmbuilt{dir: t.TempDir(), files: map[string]string{}}
	gpg, err := exec.LookPath("gpg")
	must(t, err)
	home, err := os.MkdirTemp("", "g") //nolint:usetesting // short: the path of gpg-agent's socket in it is limited
	must(t, err)
	r.env = []string{"GNUPGHOME=" + home, "HOME=" + r.dir}
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		_ = os.RemoveAll(home)
	})
	run(t, nil, r.env, "gpg", "--batch", "--passphrase", "", "--quick-generate-key", "Real <real@example.org>", "rsa3072", "sign", "never")
	r.key = run(t, nil, r.env, "gpg", "--armor", "--export", "real@example.org")
	spec := filepath.Join(r.dir, "everything.spec")
	must(t, os.WriteFile(spec, []byte(testSpec), 0o600))
	for _, how := range []string{"w9.gzdio", "w6.xzdio", "w7.lzdio", "w9.bzdio", "w19.zstdio", "w.ufdio"} {
		out := filepath.Join(r.dir, how)
		run(t, nil, r.env, "rpmbuild", "-bb", "--quiet", "--define", "_topdir "+out, "--define", "_binary_payload "+how, "--define", "__os_install_post %{nil}",
			"--define", "_build_id_links none", "--define", "debug_package %{nil}", spec)
		found, err := filepath.Glob(out + "/RPMS/*/*.rpm")
		if err != nil || len(found) != 1 {
			t.Fatalf("rpmbuild made %q, %v", found, err)
		}
		run(t, nil, r.env, "rpmsign", "--define", "__gpg "+gpg, "--define", "_gpg_name real@example.org", "--addsign", found[0])
		r.files[how] = found[0]
	}
	return r
}

// TestPackagesReal reads packages that rpmbuild and rpmsign made. It compares with rpm's queries, and with
// what rpm writes to the disk and into its database when it installs them.
func TestPackagesReal(t *testing.T) {
	needs(t, "rpmbuild", "rpmsign", "gpg", "rpm", "rpm2cpio", "cpio", "sqlite3")
	r := makeReal(t)
	keys, err := ReadKeyring([]byte(r.key))
	must(t, err)
	for how, name := range r.files {
		t.Run(how, func(t *testing.T) {
			f := opened(t, readFile(t, name))
			if got, err := f.Verify(keys, nil); err != nil || got != keys.Fingerprints()[0] {
				t.Errorf("Verify = %q, %v", got, err)
			}
			tree := map[string]*tar.Header{}
			bodies := map[string][]byte{}
			must(t, f.Payload(func(h *tar.Header, r io.Reader) error {
				tree[h.Name] = h
				body, err := io.ReadAll(r)
				bodies[h.Name] = body
				return err
			}))
			compareWithCPIO(t, name, tree)
			compareWithDump(t, name, f)
			compareWithDependencies(t, r, name, f)
			compareWithInstalled(t, r, name, f, tree, bodies)
		})
	}
}

func compareWithCPIO(t *testing.T, name string, tree map[string]*tar.Header) {
	t.Helper()
	raw := run(t, nil, nil, "rpm2cpio", name)
	var want, got []string
	for line := range strings.Lines(run(t, strings.NewReader(raw), nil, "cpio", "-t", "--quiet")) {
		want = append(want, strings.TrimPrefix(strings.TrimSpace(line), "./"))
	}
	for name := range tree {
		got = append(got, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cpio -t: %s", diff)
	}
}

// compareWithDump compares the header's data of each file.
func compareWithDump(t *testing.T, name string, f *File) {
	t.Helper()
	var want, got []string
	lines := bufio.NewScanner(strings.NewReader(run(t, nil, nil, "rpm", "-qp", "--dump", name)))
	for lines.Scan() {
		want = append(want, lines.Text())
	}
	for _, x := range f.files {
		target := x.target
		if target == "" {
			target = "X"
		}
		digest := x.digest
		if digest == "" {
			digest = strings.Repeat("0", 64)
		}
		config := 0
		if x.flags&1 != 0 {
			config = 1
		}
		got = append(got, fmt.Sprintf("%s %d %d %s %#o %s %s %d 0 %d %s", x.path, x.size, x.mtime, digest, x.mode, x.user, x.group, config, 0, target))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rpm -qp --dump: %s", diff)
	}
}

func compareWithDependencies(t *testing.T, r rpmbuilt, name string, f *File) {
	t.Helper()
	m, err := f.Header.Metadata()
	must(t, err)
	var requires, provides []string
	for _, x := range m.Requires {
		requires = append(requires, x.String())
	}
	for _, x := range m.Provides {
		provides = append(provides, x.String())
	}
	for flag, got := range map[string][]string{"--requires": requires, "--provides": provides, "--conflicts": {m.Conflicts[0].String()}, "--obsoletes": {m.Obsoletes[0].String()}} {
		want := strings.Split(strings.TrimSpace(run(t, nil, r.env, "rpm", "-qp", flag, name)), "\n")
		want = slices.DeleteFunc(want, func(s string) bool { return strings.HasPrefix(s, "rpmlib(") })
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rpm -qp %s: %s", flag, diff)
		}
	}
	if want := strings.TrimSpace(run(t, nil, r.env, "rpm", "-qp", "--qf", "%{NAME} %{EVR} %{ARCH}", name)); want != m.Name+" "+m.EVR.String()+" "+m.Arch {
		t.Errorf("rpm says %s, Metadata %s %s %s", want, m.Name, m.EVR, m.Arch)
	}
}

// compareWithInstalled lets rpm install the package into a root folder of its own.
func compareWithInstalled(t *testing.T, r rpmbuilt, name string, f *File, tree map[string]*tar.Header, bodies map[string][]byte) {
	t.Helper()
	root := t.TempDir()
	run(t, nil, r.env, "rpm", "--root", root, "--dbpath", "/var/lib/rpm", "--define", "_db_backend sqlite", "--initdb")
	run(t, nil, r.env, "rpm", "--root", root, "--dbpath", "/var/lib/rpm", "--define", "_db_backend sqlite", "--nodeps", "--nosignature", "-i", name)
	text := strings.TrimSpace(run(t, nil, nil, "sqlite3", filepath.Join(root, "var/lib/rpm/rpmdb.sqlite"), "select hex(blob) from Packages"))
	blob, err := hex.DecodeString(text)
	must(t, err)
	theirs, err := ParseHeader(blob)
	must(t, err)
	when, _ := theirs.Int(TagInstallTime)
	colour, _ := theirs.Int(TagInstallColor)
	ours, err := f.InstalledHeader(time.Unix(int64(when), 0), uint32(colour), nil)
	must(t, err)
	// The transaction's number is its start time, which may be a second earlier.
	tid, _ := theirs.Int(TagInstallTID)
	if ours, err = ours.With(Entry{TagInstallTID, TypeInt32, []uint32{uint32(tid)}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirs.Tags(), ours.Tags()); diff != "" {
		t.Errorf("tags in rpm's database: %s", diff)
	} else if !bytes.Equal(theirs.Bytes(), ours.Bytes()) {
		t.Errorf("rpm's record has %d bytes, ours %d, and they differ", len(theirs.Bytes()), len(ours.Bytes()))
	}
	for name, h := range tree {
		file := filepath.Join(root, name)
		s, err := os.Lstat(file)
		if err != nil {
			t.Error(err)
			continue
		}
		switch h.Typeflag {
		case tar.TypeReg:
			if data := readFile(t, file); !bytes.Equal(data, bodies[name]) {
				t.Errorf("%s: other content", name)
			}
			attr := make([]byte, 64)
			n, err := unix.Getxattr(file, "security.capability", attr)
			if err != nil {
				n = 0
			}
			if want := h.PAXRecords[capabilityRecord]; want != string(attr[:n]) {
				t.Errorf("%s: capabilities %x, rpm sets %x", name, want, attr[:n])
			}
		case tar.TypeSymlink:
			if target, err := os.Readlink(file); err != nil || target != h.Linkname {
				t.Errorf("%s: link to %q, %v; want %q", name, h.Linkname, err, target)
			}
		case tar.TypeLink:
			if other, err := os.Lstat(filepath.Join(root, h.Linkname)); err != nil || !os.SameFile(s, other) {
				t.Errorf("%s is not %s: %v", name, h.Linkname, err)
			}
		}
		if s.Mode().IsRegular() && h.Uname == "root" && (s.Mode().Perm() != h.FileInfo().Mode().Perm() || s.Mode()&os.ModeSetuid != h.FileInfo().Mode()&os.ModeSetuid || !s.ModTime().Equal(h.ModTime)) {
			t.Errorf("%s: %v %v, rpm makes %v %v", name, h.FileInfo().Mode(), h.ModTime, s.Mode(), s.ModTime())
		}
	}
}
