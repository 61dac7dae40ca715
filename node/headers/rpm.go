package headers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// rpmFolder is where more repositories can be mounted.
const rpmFolder = "/etc/yum.repos.d"

// rpmFamily is rpm packages and the repositories of yum, dnf and zypper. What is installed in the image is not asked: that is
// in databases whose readers the node's program has no other use for, and headers packages of these systems depend on no
// version of anything but each other.
type rpmFamily struct {
	*fetcher
	distro   distros.RPM
	arch     string // rpm's
	http     *fetch.Client
	clients  *rpm.Clients    // of the repositories that had the packages
	keys     rpmfile.Keyring // for packages that nothing else vouches for
	searched map[string]bool // sources by what they are, so that none is asked twice
}

// rpm makes the client. Proxies, certificates and logins of single repositories are those of their configuration.
func (f *fetcher) rpm() (fam family, done func(), err error) {
	d, ok := f.Distro.(distros.RPM)
	arch, known := distros.LookupArch(f.Arch)
	if !ok || !known {
		return nil, nil, fmt.Errorf("%s has no rpm packages for %s", f.Distro.ID(), f.Arch)
	}
	pool, err := authorities(f.files, f.own(), nil, f.Say)
	if err != nil {
		return nil, nil, err
	}
	env := environment(f.Getenv).ProxyFunc()
	transport := plainTransport(pool, func(r *http.Request) (*url.URL, error) { return env(r.URL) })
	return &rpmFamily{
		fetcher: f, distro: d, arch: arch.Kernel, searched: map[string]bool{},
		http: &fetch.Client{Store: f.store, HTTP: &http.Client{Transport: transport}, Attempts: attempts, UserAgent: "driver-entrypoint"},
	}, transport.CloseIdleConnections, nil
}

func (f *rpmFamily) client(url string) (*fetch.Client, error) { return f.clients.For(url) }

// trust reads the keys of the image, and those that sources name in other places of it.
func (f *rpmFamily) trust(sources []rpm.Source) error {
	keys, notes, err := rpm.Keyring(f.files, nil)
	if err != nil {
		return err
	}
	for _, note := range notes {
		f.Say("warning: a key is not used: %s", note)
	}
	for _, s := range sources {
		texts := []string{s.Key}
		for _, name := range s.GPGKeys {
			if file := strings.TrimPrefix(name, "file://"); strings.HasPrefix(file, "/") {
				text, err := readBounded(f.files, strings.TrimPrefix(file, "/"))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
				texts = append(texts, text)
			}
		}
		for _, text := range texts {
			if more, err := rpmfile.ReadKeyring([]byte(text)); text != "" && err == nil { // unusable ones were said when the source was opened
				keys = keys.Add(more)
			}
		}
	}
	f.keys = keys
	return nil
}

// members checks the package's own signature where the repository's index is not signed.
func (f *rpmFamily) members(in io.Reader, p item, add func(h *tar.Header, r io.Reader) error) error {
	file, err := rpmfile.Open(in)
	if err != nil {
		return err
	}
	if name := file.Header.Text(rpmfile.TagName); name != p.Name {
		return fmt.Errorf("%w: it calls itself %.100q", ErrPackage, name)
	}
	if len(p.Keys) > 0 {
		if _, err := file.Verify(f.keys, p.Keys); err != nil {
			return err
		}
	}
	return file.Payload(add)
}

// ofRPMHeaders tells whether a package holds headers by its name: kernel-devel, kernel-rt-devel, kernel-uek-devel,
// kernel6.12-devel, kernel-default-devel and what those of SUSE share (kernel-devel, kernel-devel-azure). kernel-headers is for
// programs, kernel-macros for packagers.
func ofRPMHeaders(name string) bool {
	rest, ok := strings.CutPrefix(name, "kernel")
	return ok && slices.Contains(strings.Split(rest, "-"), "devel") && !strings.HasSuffix(name, "-matched")
}
