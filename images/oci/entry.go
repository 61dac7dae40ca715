package oci

import (
	"cmp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
)

// choose returns the manifest for linux/arch of the entry of a layout's index that the reference
// means.
func (l LocalRef) choose(arch string, entries []v1.Descriptor, b Blobs) ([]byte, error) {
	d, err := l.entry(arch, entries)
	if err != nil {
		return nil, err
	}
	top, err := b.named(d)
	if err != nil {
		return nil, err
	}
	return ChooseManifest(l.text, arch, top, b.named)
}

// entry selects an entry by tag; without a tag, the only entry, or the only one that can be for
// linux/arch. What belongs to images does not count then, unless there is nothing else.
func (l LocalRef) entry(arch string, entries []v1.Descriptor) (found v1.Descriptor, err error) {
	fits := func(d v1.Descriptor) bool { return hasTag(d, l.tag) }
	if l.tag == "" {
		entries = imageEntries(entries)
		fits = func(d v1.Descriptor) bool {
			p := d.Platform
			return len(entries) == 1 || arch == "" || p == nil ||
				p.OS == "linux" && p.Architecture == arch
		}
	}
	var match []v1.Descriptor
	var names []string
	for _, d := range entries {
		name := d.Annotations[RefNameAnnotation]
		if name != "" {
			names = append(names, name)
		}
		known := slices.ContainsFunc(match, func(m v1.Descriptor) bool { return m.Digest == d.Digest })
		if !known && fits(d) { // the same image may have another tag
			match = append(match, d)
		}
	}
	slices.Sort(names)
	have := strings.Join(names, ", ")
	twice := cmp.Or(nameTwice(match), l.tag)
	switch {
	case len(match) == 1:
		return match[0], nil
	case len(match) > 1 && twice != "":
		return found, malformed(
			"it holds several images named %s: programs choose different ones", twice,
		)
	case len(match) > 1:
		return found, failure.Errorf(
			failure.Usage, "it holds several images: name one as %s:%s:TAG, of: %s",
			l.kind, l.Path, have,
		)
	case l.tag != "":
		return found, absentf("it holds no image named %s, only: %s", l.tag, have)
	case len(entries) == 0:
		return found, absentf("it holds no image")
	}
	var platforms []string
	for _, d := range entries {
		platforms = append(platforms, d.Platform.String()) // one without a platform fits
	}
	slices.Sort(platforms)
	return found, &PlatformError{Ref: "it", Want: "linux/" + arch, Have: slices.Compact(platforms)}
}

// nameTwice returns a name that several entries have, "" for none.
func nameTwice(entries []v1.Descriptor) string {
	seen := map[string]bool{}
	for _, d := range entries {
		name := d.Annotations[RefNameAnnotation]
		if name != "" && seen[name] {
			return name
		}
		seen[name] = true
	}
	return ""
}

func hasTag(d v1.Descriptor, tag string) bool {
	ref := d.Annotations[RefNameAnnotation]
	full := d.Annotations[ContainerdNameAnnotation]
	return tag == ref || tag == full || strings.HasSuffix(full, ":"+tag)
}

// imageEntries returns the entries that are no attachments, those with a name if there are any; all
// if every entry is an attachment.
func imageEntries(all []v1.Descriptor) []v1.Descriptor {
	var images, named []v1.Descriptor
	for _, d := range all {
		if d.ArtifactType != "" || d.Annotations[SubjectAnnotation] != "" || attachmentTag(d) != "" {
			continue
		}
		images = append(images, d)
		if nameOf(d) != "" {
			named = append(named, d)
		}
	}
	switch {
	case len(named) > 0:
		return named
	case len(images) > 0:
		return images
	}
	return all
}

// nameOf returns the name of an entry, "" if it has none.
func nameOf(d v1.Descriptor) string {
	return cmp.Or(d.Annotations[RefNameAnnotation], d.Annotations[ContainerdNameAnnotation])
}

// LocalTags returns the tags in a layout or an OCI archive, in its order, each with the digest that
// it names; "" is the tag of an entry without one. What belongs to images has no entry here. A
// docker-archive has none.
func LocalTags(ref string) (tags []string, digests []v1.Hash, err error) {
	l, ok := ParseLocal(ref)
	if !ok || l.kind == "docker-archive" {
		return nil, nil, nil
	}
	index, _, err := l.index()
	if err != nil {
		return nil, nil, l.failed(err)
	}
	for _, d := range imageEntries(index.Manifests) {
		_, tag := splitTag(nameOf(d))
		tags = append(tags, tag)
		digests = append(digests, d.Digest)
	}
	return tags, digests, nil
}

// LocalRepository returns the repository in the full name of the image in an OCI archive, "driver"
// if it has none.
func LocalRepository(l LocalRef) (string, error) {
	index, _, err := l.index()
	if err != nil {
		return "", l.failed(err)
	}
	for _, d := range imageEntries(index.Manifests) {
		if repository, _ := splitTag(d.Annotations[ContainerdNameAnnotation]); repository != "" {
			return repository, nil
		}
	}
	return "driver", nil
}

// splitTag splits the name of an entry at its last colon; a name without one is a tag.
func splitTag(name string) (repository, tag string) {
	at := strings.LastIndexByte(name, ':')
	return name[:max(at, 0)], name[at+1:]
}
