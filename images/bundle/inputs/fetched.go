package inputs

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/driver-container/driver-container/images/oci"
)

// Annotations of a layer that is a download: the address it came from, and the digest by which the repository
// names it if that is no sha256.
const (
	downloadAnnotation = "io.github.driver-container.download"
	sha512Annotation   = "io.github.driver-container.sha512"
)

// Fetched reads what driver-build fetch printed: lines "sha256:DIGEST PATH URL" of downloads, and
// "sha256:DIGEST NAME" of base images. It returns references of the bases by digest, and the downloads
// as files.
func Fetched(ctx context.Context, text string) (bases []string, files []oci.Blob, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case len(fields) == 2 && strings.HasPrefix(fields[0], "sha256:"):
			name, _, _ := strings.Cut(fields[1], "@")
			bases = append(bases, name+"@"+fields[0])
		case len(fields) == 3:
			b, err := download(ctx, fields[0], fields[1], fields[2])
			if err != nil {
				return nil, nil, err
			}
			files = append(files, b)
		default:
			return nil, nil, fmt.Errorf("%q is no line that driver-build fetch prints", line)
		}
	}
	return bases, files, nil
}

// download is a file of the cache. Its title begins with its digest, because repositories may have different
// files of one name.
func download(ctx context.Context, digest, file, url string) (oci.Blob, error) {
	b, err := FromFile(ctx, file)
	if err != nil {
		return b, err
	}
	algorithm, hex, _ := strings.Cut(digest, ":")
	base := path.Base(url)
	if i := strings.IndexAny(base, "?#"); i >= 0 {
		base = base[:i]
	}
	b.Desc.Annotations = map[string]string{TitleAnnotation: b.Desc.Digest.Hex[:12] + "-" + base, downloadAnnotation: url}
	switch {
	case algorithm == "sha512":
		b.Desc.Annotations[sha512Annotation] = hex
	case hex != b.Desc.Digest.Hex:
		return b, fmt.Errorf("%s has the digest %s, and not %s: run driver-build fetch again", file, b.Desc.Digest, digest)
	}
	return b, nil
}
