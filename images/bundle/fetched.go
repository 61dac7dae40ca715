package bundle

import (
	"context"
	"fmt"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
)

// fetched reads what driver-build fetch printed: lines "sha256:DIGEST PATH URL" of downloads, and
// "sha256:DIGEST NAME" of base images, whose names may be on this machine. It returns the downloads
// as files.
func fetched(ctx context.Context, text string) (bases []source, files []oci.Blob, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		digest, name, _ := strings.Cut(line, " ")
		at := strings.LastIndexByte(name, ' ') // a path may have blanks, an address has none
		switch {
		case line == "":
		case at > 0 && strings.Contains(name[at:], ":/"):
			b, err := download(ctx, digest, name[:at], name[at+1:])
			if err != nil {
				return nil, nil, err
			}
			files = append(files, b)
		default:
			h, err := v1.NewHash(digest)
			if err != nil || name == "" {
				return nil, nil, fmt.Errorf("%q is no line that driver-build fetch prints", line)
			}
			if !oci.IsLocal(name) {
				name, _, _ = strings.Cut(name, "@")
				name += "@" + digest
			}
			bases = append(bases, source{Base, name, h})
		}
	}
	return bases, files, nil
}

// download is a file of the cache. Its title begins with its digest, because repositories may have
// different files of one name.
func download(ctx context.Context, digest, file, url string) (oci.Blob, error) {
	b, err := fromFile(ctx, file, "")
	if err != nil {
		return b, fmt.Errorf("%w: run driver-build fetch again", err)
	}
	algorithm, hex, _ := strings.Cut(digest, ":")
	name := path.Base(url)
	if i := strings.IndexAny(name, "?#"); i >= 0 {
		name = name[:i]
	}
	b.Desc.Annotations = map[string]string{
		TitleAnnotation:    b.Desc.Digest.Hex[:12] + "-" + name,
		downloadAnnotation: url,
	}
	switch {
	case algorithm == "sha512":
		b.Desc.Annotations[sha512Annotation] = hex
	case hex != b.Desc.Digest.Hex:
		return b, fmt.Errorf(
			"%s has the digest %s, and not %s: run driver-build fetch again",
			file,
			b.Desc.Digest,
			digest,
		)
	}
	return b, nil
}
