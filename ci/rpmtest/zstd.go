package rpmtest

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// The parts of repomd.xml that recompress replaces, in the form in which createrepo_c writes them.
var (
	dataElement  = regexp.MustCompile(`(?s)<data type="[^"]*">.*?</data>`)
	fileLocation = regexp.MustCompile(`href="repodata/([^"]*\.xml)\.gz"`)
	fileDigest   = regexp.MustCompile(`<checksum type="([^"]*)">[^<]*</checksum>`)
	fileSize     = regexp.MustCompile(`<size>[0-9]*</size>`)
)

// recompress compresses the XML lists of a repository with zstd, as createrepo_c 1.0 does and as Fedora's
// are.
func recompress(repodata string) error {
	repomd := filepath.Join(repodata, "repomd.xml")
	text, err := os.ReadFile(repomd) //nolint:gosec // a folder of the test
	if err != nil {
		return err
	}
	var failed error
	text = dataElement.ReplaceAllFunc(text, func(element []byte) []byte {
		at := fileLocation.FindSubmatch(element)
		if at == nil {
			return element // a sqlite list stays as it is
		}
		out, err := recompressList(repodata, string(at[1]), string(element))
		failed = errors.Join(failed, err)
		return []byte(out)
	})
	if failed != nil {
		return failed
	}
	return os.WriteFile(repomd, text, 0o644) //nolint:gosec // servers of other users read it
}

// recompressList compresses one list with zstd and returns its new element for repomd.xml.
func recompressList(repodata, name, element string) (string, error) {
	old := filepath.Join(repodata, name+".gz")
	packed, err := os.ReadFile(old) //nolint:gosec // a folder of the test
	if err != nil {
		return "", err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(w, z); err != nil { //nolint:gosec // createrepo_c has just written it
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	kind := fileDigest.FindStringSubmatch(element)
	if kind == nil {
		return "", fmt.Errorf("repomd.xml has no checksum of %s", name)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(out.Bytes()))
	if kind[1] == "sha512" {
		digest = fmt.Sprintf("%x", sha512.Sum512(out.Bytes()))
	}
	if _, plain, ok := strings.Cut(name, "-"); ok {
		name = digest + "-" + plain
	}
	element = fileLocation.ReplaceAllString(element, `href="repodata/`+name+`.zst"`)
	element = fileDigest.ReplaceAllString(element, `<checksum type="`+kind[1]+`">`+digest+`</checksum>`)
	element = fileSize.ReplaceAllString(element, fmt.Sprintf("<size>%d</size>", out.Len()))
	if err := os.WriteFile(filepath.Join(repodata, name+".zst"), out.Bytes(), 0o644); err != nil { //nolint:gosec // as above
		return "", err
	}
	return element, os.Remove(old)
}
