package bundle

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
)

// Annotations of a layer that is a file.
const (
	TitleAnnotation      = "org.opencontainers.image.title"        // its path, which `oras pull` writes it to
	DownloadAnnotation   = "io.github.driver-container.download"   // of a download, the address it came from
	SHA512Annotation     = "io.github.driver-container.sha512"     // of a download whose repository has no sha256
	ExecutableAnnotation = "io.github.driver-container.executable" // "true" of a program
)

// Bounds of the path of a file.
const (
	maxFolders       = 8  // of an input: patches lie in folders beside their matrix
	maxMirrorFolders = 39 // of a mirror: host and address
)

// The shapes of a name in the path of an input and of a file in a mirror: no hidden file, nothing that leads
// out of the folder.
var (
	inputPart  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,199}$`)
	mirrorPart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+~:@^=,-]{0,199}$`)
	sha512Hex  = regexp.MustCompile(`^([0-9a-f]{128})?$`)
)

// CheckPath says why an import would not write a file of an item of this kind.
func CheckPath(kind Kind, title string) error {
	shape, least, most := inputPart, 1, maxFolders+1
	if kind == Headers {
		shape, least, most = mirrorPart, 2, maxMirrorFolders+1
	}
	parts := strings.Split(title, "/")
	if len(parts) < least || len(parts) > most || slices.ContainsFunc(parts, func(p string) bool { return !shape.MatchString(p) }) {
		return fmt.Errorf("%q cannot be the path of a file in %s: letters, digits and ._+~- make a name, in at most %d folders", title, kind, most-1)
	}
	return nil
}

// Files returns the files of all items of a kind whose layers are files.
func (l *List) Files(documents map[v1.Hash][]byte, kind Kind) (all []v1.Descriptor) {
	for _, i := range l.Items {
		if refs, err := Refer(documents[i.Descriptor.Digest]); i.Kind == kind && err == nil && len(refs.Blobs) > 0 {
			all = append(all, refs.Blobs[1:]...)
		}
	}
	return all
}

// checkFiles says which files an import could not write, or would write over others.
func (l *List) checkFiles(documents map[v1.Hash][]byte) (faults []string) {
	for _, kind := range []Kind{Inputs, Headers} {
		files, folders := map[string]v1.Hash{}, map[string]bool{}
		for _, d := range l.Files(documents, kind) {
			if err := checkFile(kind, d, files); err != nil {
				faults = append(faults, err.Error())
				continue
			}
			if d.Annotations[DownloadAnnotation] == "" {
				files[d.Annotations[TitleAnnotation]] = d.Digest
			}
		}
		for name := range files {
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				folders[dir] = true
			}
		}
		for name := range files {
			if folders[name] {
				faults = append(faults, fmt.Sprintf("%s is a file and a folder of %s", name, kind))
			}
		}
	}
	return faults
}

func checkFile(kind Kind, d v1.Descriptor, others map[string]v1.Hash) error {
	if d.Annotations[DownloadAnnotation] != "" {
		if !sha512Hex.MatchString(d.Annotations[SHA512Annotation]) {
			return errors.New("a download has no sha512 where one is stated")
		}
		return nil
	}
	title := d.Annotations[TitleAnnotation]
	if other, twice := others[title]; twice && other != d.Digest {
		return fmt.Errorf("two different files have the name %s", title)
	}
	return CheckPath(kind, title)
}

// SelectionError says that what the user selected cannot be a bundle.
type SelectionError struct{ Err error }

func (e *SelectionError) Error() string { return e.Err.Error() }

// FailureKind says what the command makes of it.
func (*SelectionError) FailureKind() failure.Kind { return failure.Usage }
func (e *SelectionError) Unwrap() error           { return e.Err }
