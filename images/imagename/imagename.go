// Package imagename checks the names of images, repositories and registries as users write them. It
// names the usual mistakes (a scheme, a path of this machine, upper case, a tag where none belongs)
// before a registry is asked, and it asks none. The names themselves are those of
// go-containerregistry.
package imagename

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// maxName bounds a name; longer ones are no names. Registries accept 255 bytes of a repository and
// 128 of a tag.
const maxName = 1024

// The shapes are those of the OCI distribution specification, "Pulling manifests": of <name>, and
// of a tag as <reference>.
var (
	pathShape = regexp.MustCompile(
		`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`,
	)
	tagShape = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
)

// Error is a mistake in a name.
type Error struct {
	Name  string // as written
	Fault string // "is no ...: reason"
}

// Error returns the name, cut to a readable length, and the fault.
func (e *Error) Error() string {
	const most = 200
	if len(e.Name) > most {
		return fmt.Sprintf("%q... %s", e.Name[:most], e.Fault)
	}
	return fmt.Sprintf("%q %s", e.Name, e.Fault)
}

func mistake(name, fault string, err error) error {
	if err != nil {
		return &Error{name, fault + err.Error()}
	}
	return nil
}

// Split takes [REGISTRY/]PATH[:TAG][@DIGEST] apart and judges nothing. "" is what a name does not
// have.
func Split(text string) (repository, tag, digest string) {
	repository, digest, _ = strings.Cut(text, "@")
	colon := strings.LastIndexByte(repository, ':')
	if colon <= strings.LastIndexByte(repository, '/') { // of a port, or none
		return repository, "", digest
	}
	return repository[:colon], repository[colon+1:], digest
}

// CheckImage accepts [REGISTRY/]PATH[:TAG][@DIGEST]. Its error is an *Error.
func CheckImage(text string) error {
	_, _, _, err := Parse(text)
	return err
}

// Parse is CheckImage that returns the parts. The tag is "" if there is only a digest, "latest" if
// there is neither.
func Parse(text string) (repository name.Repository, tag string, digest v1.Hash, err error) {
	fail := func(err error) error { return mistake(text, "is no image reference: ", err) }
	if err := check(text); err != nil {
		return repository, "", digest, fail(err)
	}
	before, hex, pinned := strings.Cut(text, "@")
	if pinned {
		digest, err = v1.NewHash(hex)
		if err != nil || digest.Algorithm != "sha256" {
			return repository, "", digest, fail(
				errors.New("its digest must be sha256: and 64 hex digits"),
			)
		}
	}
	t, err := name.NewTag(before)
	if err != nil {
		return repository, "", digest, fail(err)
	}
	if !tagShape.MatchString(t.TagStr()) {
		return repository, "", digest, fail(fmt.Errorf("%q is no tag", t.TagStr()))
	}
	_, tag, _ = Split(text)
	if !pinned {
		tag = t.TagStr()
	}
	return t.Context(), tag, digest, nil
}

// CheckTag accepts the tag of an image. Its error is an *Error.
func CheckTag(text string) error {
	if !tagShape.MatchString(text) {
		return &Error{
			text,
			"is no tag: it has 1 to 128 of A-Z a-z 0-9 . _ - and does not begin with . or -",
		}
	}
	return nil
}

// CheckRepository accepts [REGISTRY/]PATH, without a tag and without a digest. Its error is an
// *Error.
func CheckRepository(text string) error {
	return mistake(text, "is no repository REGISTRY/PATH: ", checkRepository(text))
}

func checkRepository(text string) error {
	if err := check(text); err != nil {
		return err
	}
	repository, tag, _ := Split(text)
	switch before, _, pinned := strings.Cut(text, "@"); {
	case pinned:
		return fmt.Errorf("it has a digest, which only an image has: give %s", before)
	case repository != text:
		return fmt.Errorf("it has the tag %q, which belongs to an image: give %s", tag, repository)
	}
	_, err := name.NewRepository(text)
	return err
}

// CheckRegistry accepts HOST[:PORT]. Its error is an *Error.
func CheckRegistry(text string) error {
	return mistake(
		text,
		"is no registry host, such as registry.example.com:5000: ",
		checkRegistry(text),
	)
}

func checkRegistry(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	if _, rest, ok := strings.Cut(text, "://"); ok {
		return fmt.Errorf("a registry is named without scheme: give %s", rest)
	}
	if err := check(text + "/x"); err != nil {
		return err
	}
	if strings.ContainsAny(text, "/@") {
		return errors.New("it has more than a host and a port")
	}
	_, err := name.NewRegistry(text)
	return err
}

// check finds what people write instead of a name.
func check(text string) error {
	_, rest, scheme := strings.Cut(text, "://")
	switch {
	case text == "":
		return errors.New("it is empty")
	case len(text) > maxName:
		return fmt.Errorf("it has %d bytes", len(text))
	case strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) >= 0:
		return errors.New("it has a blank or an unprintable character")
	case scheme:
		return fmt.Errorf(
			"a name has no scheme: give %s (a registry without TLS needs --insecure-registry)",
			rest,
		)
	case strings.HasPrefix(text, "/"),
		strings.HasPrefix(text, "./"),
		strings.HasPrefix(text, "../"),
		strings.HasPrefix(text, "~"):
		return errors.New(
			"it is a path of this machine, where an image is oci:DIR, oci-archive:FILE or docker-archive:FILE",
		)
	}
	host, path, ok := strings.Cut(text, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host = ""
		path = text // an image of Docker's registry
	}
	if err := checkPort(host); err != nil {
		return err
	}
	path, _, _ = Split(path) // tags may have upper case
	if lower := strings.ToLower(path); path != lower {
		return fmt.Errorf(
			"registries accept no upper case in a path: did you mean %s?",
			strings.Replace(text, path, lower, 1),
		)
	}
	if !pathShape.MatchString(path) {
		return fmt.Errorf(
			"%q is no path in a registry: words of a-z and 0-9, with single . _ - between them, separated by /",
			path,
		)
	}
	return nil
}

// checkPort refuses "https:" and other hosts whose port is no number: go-containerregistry takes
// them.
func checkPort(host string) error {
	if !strings.Contains(host, ":") {
		return nil
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		return nil
	}
	h, port, err := net.SplitHostPort(host)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || h == "" {
		return fmt.Errorf("%q is no host, or its port is no number from 1 to 65535", host)
	}
	return nil
}
