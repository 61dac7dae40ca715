package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
)

// VerifyIndex is Verify of every image of an index, which has one entry a platform. open opens the
// image of an entry. Findings name the platform. What the index names and nobody has is a finding, and
// so is an index without images.
func (e Examiner) VerifyIndex(
	ctx context.Context,
	name string,
	entries []v1.Descriptor,
	open func(v1.Descriptor) (v1.Image, error),
	o Options,
) (all []Finding, err error) {
	seen := map[string]bool{}
	for i, d := range entries {
		s := &subject{rule: "index"}
		entry := fmt.Sprintf("entry %d (%s)", i+1, d.Digest)
		switch {
		case d.MediaType.IsIndex():
			s.fail("", "%s is an index: an index has images, one a platform", entry)
		case d.Platform == nil:
			s.fail("", "%s has no platform, so that runtimes take it for that of its configuration", entry)
		case d.Platform.OS == "unknown": // attestations of BuildKit, which no runtime starts
			continue
		case seen[d.Platform.OS+"/"+d.Platform.Architecture]:
			s.fail("", "%s is a second one for %s: some runtimes take it, others the first", entry, d.Platform)
		default:
			seen[d.Platform.OS+"/"+d.Platform.Architecture] = true
			s.findings, err = e.verifyEntry(ctx, name, d, open, o)
			if err != nil {
				return all, fmt.Errorf("%s: %w", entry, err)
			}
		}
		all = append(all, s.findings...)
	}
	if len(seen) == 0 {
		all = append(all, NewFinding(Error, "index", "", "it names no image for a platform: no node can use it"))
	}
	return all, ctx.Err()
}

// verifyEntry is Verify of an entry of an index.
func (e Examiner) verifyEntry(
	ctx context.Context,
	name string,
	d v1.Descriptor,
	open func(v1.Descriptor) (v1.Image, error),
	o Options,
) (all []Finding, err error) {
	img, err := open(d)
	if err == nil {
		all, err = e.Verify(ctx, name, img, o)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || failure.KindOf(err) == failure.Content:
		all = append(all, NewFinding(Error, "index", "", "%s cannot be read: %v", d.Digest, err))
	case err != nil:
		return nil, err
	default:
		all = append(all, checkPlatform(d, img)...)
	}
	for i := range all {
		all[i].Message = d.Platform.String() + ": " + all[i].Message
	}
	return all, nil
}

// checkPlatform compares the platform of an entry with that of its image.
func checkPlatform(d v1.Descriptor, img v1.Image) []Finding {
	config, err := img.ConfigFile()
	if err != nil {
		return []Finding{NewFinding(Error, "index", "", "%s: %v", d.Digest, err)}
	}
	is := v1.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant}
	said := v1.Platform{
		OS:           d.Platform.OS,
		Architecture: d.Platform.Architecture,
		Variant:      d.Platform.Variant,
	}
	if is.Equals(said) {
		return nil
	}
	return []Finding{NewFinding(Error, "index", "", "%s is for %s, its entry says %s", d.Digest, is, said)}
}
