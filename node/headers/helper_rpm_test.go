package headers

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

const rockyRelease = "5.14.0-427.13.1.el9_4.x86_64"

// rpmPackage is a package of an rpm repository.
type rpmPackage struct {
	name, version, arch string // version-release
	provides, requires  []string
	entries             []entry // names without "./"; folders are left out
	key                 *openpgp.Entity
	damage              func([]byte) []byte
}

// bytes makes the package like rpmbuild: all entries in an immutable region, digests of the payload and of
// each file.
func (p rpmPackage) bytes(t testing.TB) []byte {
	t.Helper()
	payload := gzipped(t, p.cpio())
	header := p.header(t, payload)
	var signature []rpmfile.Entry
	signed := append([]byte("\x8e\xad\xe8\x01\x00\x00\x00\x00"), header...)
	if p.key != nil {
		var b bytes.Buffer
		must(t, openpgp.DetachSign(&b, p.key, bytes.NewReader(signed), &packet.Config{Time: func() time.Time { return time.Now().Add(-time.Minute) }}))
		signature = append(signature, rpmfile.Entry{Tag: rpmfile.TagDSAHeader, Type: rpmfile.TypeBinary, Value: b.Bytes()})
	}
	signature = append(signature, rpmfile.Entry{Tag: rpmfile.TagSHA256Header, Type: rpmfile.TypeString, Value: fmt.Sprintf("%x", sha256.Sum256(signed))})
	lead := make([]byte, 96)
	copy(lead, "\xed\xab\xee\xdb\x03\x00")
	lead[79] = 5
	sig := region(t, rpmfile.TagHeaderSignatures, signature)
	b := slices.Concat(lead, signed[:8], sig, make([]byte, -len(sig)&7), signed, payload)
	if p.damage != nil {
		return p.damage(b)
	}
	return b
}

// region wraps entries into a region: its own index entry comes first, its trailer last.
func region(t testing.TB, tag rpmfile.Tag, entries []rpmfile.Entry) []byte {
	t.Helper()
	slices.SortFunc(entries, func(a, b rpmfile.Entry) int { return int(a.Tag) - int(b.Tag) })
	h, err := (&rpmfile.Header{}).With(entries...)
	must(t, err)
	plain := h.Bytes()
	count, size := binary.BigEndian.Uint32(plain), binary.BigEndian.Uint32(plain[4:])
	words := func(to []byte, all ...uint32) []byte {
		for _, w := range all {
			to = binary.BigEndian.AppendUint32(to, w)
		}
		return to
	}
	b := words(nil, count+1, size+16, uint32(tag), 7, size, 16)
	return words(append(b, plain[8:]...), uint32(tag), 7, -(count+1)*16, 16)
}

func (e entry) rpmMode() uint16 {
	if e.link != "" {
		return 0o120777
	}
	return 0o100000 | uint16(max(e.mode, 0o644))
}

func (e entry) content() string {
	if e.link != "" {
		return e.link
	}
	return e.body
}

func (p rpmPackage) header(t testing.TB, payload []byte) []byte {
	t.Helper()
	version, release, _ := strings.Cut(p.version, "-")
	text := func(tag rpmfile.Tag, s string) rpmfile.Entry {
		return rpmfile.Entry{Tag: tag, Type: rpmfile.TypeString, Value: s}
	}
	texts := func(tag rpmfile.Tag, s ...string) rpmfile.Entry {
		return rpmfile.Entry{Tag: tag, Type: rpmfile.TypeStringArray, Value: s}
	}
	numbers := func(tag rpmfile.Tag, n []uint32) rpmfile.Entry {
		return rpmfile.Entry{Tag: tag, Type: rpmfile.TypeInt32, Value: n}
	}
	var bases, dirs, digests, targets, owners []string
	var index, sizes, times, devices, inodes []uint32
	var modes []uint16
	for n, e := range p.entries {
		dir, base := path.Split("/" + e.name)
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		digest := ""
		if e.link == "" {
			digest = fmt.Sprintf("%x", sha256.Sum256([]byte(e.body)))
		}
		bases, index, digests, targets = append(bases, base), append(index, uint32(slices.Index(dirs, dir))), append(digests, digest), append(targets, e.link)
		sizes, modes, times = append(sizes, uint32(len(e.content()))), append(modes, e.rpmMode()), append(times, 1700000000)
		devices, inodes, owners = append(devices, 1), append(inodes, uint32(n+1)), append(owners, "root")
	}
	return region(t, rpmfile.TagHeaderImmutable, []rpmfile.Entry{
		text(rpmfile.TagName, p.name), text(rpmfile.TagVersion, version), text(rpmfile.TagRelease, release), text(rpmfile.TagArch, p.arch),
		text(rpmfile.TagPayloadFormat, "cpio"), text(rpmfile.TagPayloadCompressor, "gzip"),
		texts(rpmfile.TagPayloadDigest, fmt.Sprintf("%x", sha256.Sum256(payload))), numbers(rpmfile.TagPayloadDigestAlgo, []uint32{8}),
		numbers(rpmfile.TagFileDigestAlgo, []uint32{8}), texts(rpmfile.TagBaseNames, bases...), texts(rpmfile.TagDirNames, dirs...),
		texts(rpmfile.TagFileDigests, digests...), texts(rpmfile.TagFileLinkTos, targets...), texts(rpmfile.TagFileUserName, owners...),
		texts(rpmfile.TagFileGroupName, owners...), numbers(rpmfile.TagDirIndexes, index), numbers(rpmfile.TagFileSizes, sizes),
		numbers(rpmfile.TagFileMTimes, times), numbers(rpmfile.TagFileDevices, devices), numbers(rpmfile.TagFileInodes, inodes),
		numbers(rpmfile.TagFileFlags, make([]uint32, len(bases))), {Tag: rpmfile.TagFileModes, Type: rpmfile.TypeInt16, Value: modes},
	})
}

// cpio returns the archive in the "newc" format.
func (p rpmPackage) cpio() []byte {
	var b bytes.Buffer
	pad := func() { b.Write(make([]byte, -b.Len()&3)) }
	member := func(inode int, name string, mode uint16, body string) {
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
			inode, mode, 0, 0, 1, 1700000000, len(body), 0, 0, 0, 0, len(name)+1, 0, name)
		pad()
		b.WriteString(body)
		pad()
	}
	for n, e := range p.entries {
		member(n+1, "./"+e.name, e.rpmMode(), e.content())
	}
	member(0, "TRAILER!!!", 0, "")
	return b.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

// rpmRepository puts packages and their metadata below a path of an archive.
func (a *archive) rpmRepository(at string, key *openpgp.Entity, packages ...rpmPackage) {
	var primary strings.Builder
	relation := func(text string) string {
		name, rest, versioned := strings.Cut(text, " = ")
		if !versioned {
			return fmt.Sprintf("<rpm:entry name=%q/>", name)
		}
		version, release, _ := strings.Cut(rest, "-")
		return fmt.Sprintf("<rpm:entry name=%q flags=\"EQ\" epoch=\"0\" ver=%q rel=%q/>", name, version, release)
	}
	all := func(what string, relations []string) {
		if len(relations) == 0 {
			return
		}
		fmt.Fprintf(&primary, "<rpm:%s>", what)
		for _, r := range relations {
			primary.WriteString(relation(r))
		}
		fmt.Fprintf(&primary, "</rpm:%s>", what)
	}
	fmt.Fprintf(&primary, `<metadata xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm" packages="%d">`, len(packages))
	for _, p := range packages {
		data := p.bytes(a.t)
		file := p.name + "-" + p.version + "." + p.arch + ".rpm"
		a.files[at+"/"+file] = data
		version, release, _ := strings.Cut(p.version, "-")
		fmt.Fprintf(&primary, `<package type="rpm"><name>%s</name><arch>%s</arch><version epoch="0" ver="%s" rel="%s"/><checksum type="sha256" pkgid="YES">%x</checksum>`,
			p.name, p.arch, version, release, sha256.Sum256(data))
		fmt.Fprintf(&primary, `<size package="%d" installed="100" archive="1"/><location href="%s"/><format>`, len(data), file)
		all("provides", append([]string{p.name + " = " + p.version}, p.provides...))
		all("requires", p.requires)
		primary.WriteString("</format></package>")
	}
	primary.WriteString("</metadata>")
	packed := gzipped(a.t, []byte(primary.String()))
	a.files[at+"/repodata/primary.xml.gz"] = packed
	repomd := fmt.Sprintf(`<repomd xmlns="http://linux.duke.edu/metadata/repo"><revision>1700000000</revision><data type="primary"><checksum type="sha256">%x</checksum>`+
		`<open-checksum type="sha256">%x</open-checksum><location href="repodata/primary.xml.gz"/><timestamp>1700000000</timestamp><size>%d</size><open-size>%d</open-size></data></repomd>`,
		sha256.Sum256(packed), sha256.Sum256([]byte(primary.String())), len(packed), primary.Len())
	a.files[at+"/repodata/repomd.xml"] = []byte(repomd)
	if key != nil {
		var b bytes.Buffer
		must(a.t, openpgp.ArmoredDetachSign(&b, key, strings.NewReader(repomd), &packet.Config{Time: func() time.Time { return time.Now().Add(-time.Minute) }}))
		a.files[at+"/repodata/repomd.xml.asc"] = b.Bytes()
	}
}

func armoured(t testing.TB, e *openpgp.Entity) string {
	t.Helper()
	var b bytes.Buffer
	w, err := armor.Encode(&b, openpgp.PublicKeyType, nil)
	must(t, err)
	must(t, e.Serialize(w))
	must(t, w.Close())
	return b.String()
}

// newRPMImage is a root of Rocky Linux 9.4 with the key of the tests.
func newRPMImage(t testing.TB, repo string) *image {
	t.Helper()
	i := &image{t: t, dir: t.TempDir(), env: map[string]string{}}
	for _, d := range []string{"usr/lib", "usr/src/kernels", "tmp"} {
		must(t, os.MkdirAll(filepath.Join(i.dir, d), 0o755))
	}
	must(t, os.Symlink("usr/lib", filepath.Join(i.dir, "lib")))
	i.write("etc/os-release", "ID=\"rocky\"\nVERSION_ID=\"9.4\"\n")
	i.write("etc/pki/rpm-gpg/RPM-GPG-KEY-test", armoured(t, signer()))
	i.write("etc/yum.repos.d/test.repo", repo)
	return i
}

func (i *image) fetchRelease(release string) ([]string, error) {
	o := i.options()
	o.Release = release
	return Fetch(i.t.Context(), o)
}

// kernelDevel is the headers package of Red Hat's kernels; the link to its tree is in the package of the
// kernel.
func kernelDevel(release string) rpmPackage {
	version := strings.TrimSuffix(release, ".x86_64")
	src := "usr/src/kernels/" + release + "/"
	return rpmPackage{
		name: "kernel-devel", version: version, arch: "x86_64", provides: []string{"kernel-devel-uname-r = " + release},
		requires: []string{"findutils", "/usr/bin/perl", "gcc", "elfutils-libelf-devel"},
		entries: []entry{
			{name: src + ".config", body: "CONFIG_X86=y\n"},
			{name: src + "Makefile", body: "all:\n"},
			{name: src + "include/config/kernel.release", body: release + "\n"},
			{name: src + "include/generated/utsrelease.h", body: "#define UTS_RELEASE \"" + release + "\"\n"},
			{name: src + "scripts/basic/fixdep", body: "fixdep", mode: 0o755},
			{name: src + "arch/x86/boot", link: "../../boot"},
			{name: "usr/share/doc/kernel-devel/x", body: "text"},
		},
	}
}
