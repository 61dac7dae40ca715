package bundle

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/strictjson"
)

// Annotations of a layer that is a file.
const (
	// its path, which `oras pull` writes it to
	TitleAnnotation = "org.opencontainers.image.title"
	// of a download, the address it came from
	downloadAnnotation = "io.github.driver-container.download"
	// of a download whose repository has no sha256
	sha512Annotation     = "io.github.driver-container.sha512"
	executableAnnotation = "io.github.driver-container.executable" // "true" of a program
)

// Bounds of the path of a file.
const (
	maxFolders       = 8  // of an input: patches lie in folders beside their matrix
	maxMirrorFolders = 39 // of a mirror: host and address
)

// The shapes of a name in the path of an input and of a file in a mirror: no hidden file, nothing
// that leads out of the folder.
var (
	inputPart  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,199}$`)
	mirrorPart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+~:@^=,-]{0,199}$`)
	sha512Hex  = regexp.MustCompile(`^([0-9a-f]{128})?$`)
)

// CheckPath says why an import would not write a file of an item of this kind.
func CheckPath(kind ItemKind, title string) error {
	shape := inputPart
	least := 1
	most := maxFolders + 1
	if kind == Headers {
		shape = mirrorPart
		least = 2
		most = maxMirrorFolders + 1
	}
	parts := strings.Split(title, "/")
	if len(parts) < least || len(parts) > most ||
		slices.ContainsFunc(parts, func(p string) bool { return !shape.MatchString(p) }) {
		return fmt.Errorf(
			"%q cannot be the path of a file in %s: letters, digits and ._+~- make a name, in at most %d folders",
			title,
			kind,
			most-1,
		)
	}
	return nil
}

// files returns the files of all items of a kind whose layers are files, and apart from them the
// downloads.
func (g *graph) files(kind ItemKind) (files, downloads []v1.Descriptor) {
	for _, p := range g.parts {
		if p.Kind != kind {
			continue
		}
		// an index has no layers; it was read before
		m, _ := strictjson.Decode[v1.Manifest](p.Top().Raw)
		for _, d := range m.Layers {
			if d.Annotations[downloadAnnotation] != "" {
				downloads = append(downloads, d)
			} else {
				files = append(files, d)
			}
		}
	}
	return files, downloads
}

// checkFiles says which file an import could not write, or would write over another.
func checkFiles(g *graph) error {
	for _, kind := range []ItemKind{Inputs, Headers} {
		files, downloads := g.files(kind)
		for _, d := range downloads {
			if !sha512Hex.MatchString(d.Annotations[sha512Annotation]) {
				return errors.New("a download has no sha512 where one is stated")
			}
		}
		known := map[string]v1.Hash{}
		folders := map[string]bool{}
		for _, d := range files {
			title := d.Annotations[TitleAnnotation]
			if err := CheckPath(kind, title); err != nil {
				return err
			}
			if other, twice := known[title]; twice && other != d.Digest {
				return fmt.Errorf("two different files have the name %s", title)
			}
			known[title] = d.Digest
			for dir := path.Dir(title); dir != "."; dir = path.Dir(dir) {
				folders[dir] = true
			}
		}
		for name := range known {
			if folders[name] {
				return fmt.Errorf("%s is a file and a folder of %s", name, kind)
			}
		}
	}
	return nil
}
