package csaf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/releases"
)

// The bounds on what is read.
const (
	maxFile  = 16 << 20 // bytes of a document. That of May 2026, with 15 CVEs, has 170 KB
	maxFiles = 10_000   // of a folder. NVIDIA's repository has about 1,100
)

// Read reads a document, or all documents (*.json) of a folder and its folders, such as a clone of
// github.com/NVIDIA/product-security. In a folder it leaves out drafts and documents of another form,
// such as CVE records, and a note counts them.
func Read(path string) (fixes []releases.Fix, notes []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, failure.Of(failure.Usage, err)
	}
	if !info.IsDir() {
		fixes, notes, err = readFile(path)
		if err == nil && len(fixes) == 0 {
			notes = append(notes, "it names no driver for Linux")
		}
		return fixes, named(path, notes), err
	}
	var others, files int
	// the slash follows a link to the folder
	err = filepath.WalkDir(path+"/", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return failure.Of(failure.Usage, err)
		}
		if !entry.Type().IsRegular() || !strings.HasSuffix(file, ".json") {
			return nil
		}
		files++
		if files > maxFiles {
			return failure.Errorf(failure.Content, "%s has more than %d documents", path, maxFiles)
		}
		some, more, err := readFile(file)
		if errors.Is(err, errOther) {
			others++
			return nil
		}
		fixes = append(fixes, some...)
		notes = append(notes, named(file, more)...)
		return err
	})
	if err == nil && files == others {
		err = fmt.Errorf("%s: %w: it has no such document", path, ErrFormat)
	}
	if others > 0 {
		notes = append(notes, fmt.Sprintf("%s: left out %d files that are drafts or no CSAF documents", path, others))
	}
	return fixes, notes, err
}

// named puts the name of a file before notes.
func named(path string, notes []string) (all []string) {
	for _, note := range notes {
		all = append(all, path+": "+note)
	}
	return all
}

func readFile(path string) ([]releases.Fix, []string, error) {
	text, err := bounded.File(path, maxFile)
	if err != nil {
		return nil, nil, failure.Of(failure.Usage, fmt.Errorf("read the bulletin %s: %w", path, err))
	}
	fixes, notes, err := Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return fixes, notes, nil
}
