package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// Copy copies an artifact of any kind, with everything that belongs to it (see
// [Client.Attachments]), into the repository of to, and gives it the tag of to and further tags.
// from is a reference as [Client.Open] takes it. Blobs that the target's registry has in the
// source's repository are mounted. The tags move last, when the attachments are there. Errors are
// those of Open and Push.
func (c *Client) Copy(
	ctx context.Context,
	from, to string,
	tags ...string,
) (h v1.Hash, stats Stats, err error) {
	_, err = parseReference(to)
	if err != nil {
		return h, stats, err
	}
	source, err := c.Open(ctx, from, OpenOptions{})
	if err != nil {
		return h, stats, err
	}
	all, err := oci.Collect(source.Artifact)
	if err != nil {
		return h, stats, fmt.Errorf("copy %s: %w", from, err)
	}
	if !oci.IsLocal(from) {
		r, err := parseReference(from)
		if err != nil {
			return h, stats, err
		}
		for _, b := range all.Blobs {
			c.origins.Store(b.Desc.Digest, r.repo.Name())
		}
		from = r.repo.Name() + "@" + source.Digest.String() // the tag may move meanwhile
	}
	attachments, err := c.Attachments(ctx, from)
	if err != nil {
		return h, stats, err
	}
	stats, err = c.PushContent(ctx, to, all, attachments, tags...)
	return source.Digest, stats, err
}

// Transfer is one call of [Client.Copy].
type Transfer struct {
	From, To string
	Tags     []string // further ones
}

// Names returns all names of the copy, without the digest.
func (t Transfer) Names() []string {
	to, _, _ := strings.Cut(t.To, "@")
	names := []string{to}
	repository, _, _ := imagename.Split(to)
	for _, tag := range t.Tags {
		names = append(names, repository+":"+tag)
	}
	return names
}

// Transfers says how images are copied to a repository. to may have a tag, and tags may have
// further ones, for one image; without them images keep their tags. A source without a tag means
// all images that a layout or an archive has. Transfers does not use the network.
func Transfers(sources []string, to string, tags []string) (all []Transfer, err error) {
	_, tag, digest := imagename.Split(to)
	named := tag+digest != ""
	if named || len(tags) > 0 {
		if len(sources) != 1 {
			return nil, fmt.Errorf(
				"push %d images to %s: images that keep their tags are pushed to REGISTRY/PATH, without a tag",
				len(sources), to,
			)
		}
		if !named {
			to += ":" + tags[0]
			tags = tags[1:]
		}
		return []Transfer{{sources[0], to, tags}}, nil
	}
	names := map[string]string{} // name at the target -> source
	for _, source := range sources {
		some, err := keepTags(source, to)
		if err != nil {
			return nil, err
		}
		for _, t := range some {
			for _, name := range t.Names() {
				if names[name] != "" {
					_, tag, _ := imagename.Split(name)
					return nil, fmt.Errorf(
						"push %s: %s has the tag %s too: push them to repositories of their own, or under other tags",
						source, names[name], tag,
					)
				}
				names[name] = source
			}
		}
		all = append(all, some...)
	}
	return all, nil
}

// keepTags makes a transfer for each image of a source.
func keepTags(source, to string) (all []Transfer, err error) {
	_, name, _ := imagename.Split(source)
	if local, ok := oci.ParseLocal(source); ok {
		name = local.Tag()[strings.LastIndexByte(local.Tag(), ':')+1:]
		if name == "" && !strings.HasPrefix(source, "docker-archive:") {
			return localTransfers(source, to)
		}
	}
	if imagename.CheckTag(name) != nil {
		return nil, fmt.Errorf("push %s: it names no tag: give %s:TAG, or --tag", source, to)
	}
	return []Transfer{{From: source, To: to + ":" + name}}, nil
}

// localTransfers makes a transfer for each image that a layout or an archive has, with all of its
// tags.
func localTransfers(source, to string) (all []Transfer, err error) {
	tags, digests, err := oci.LocalTags(source)
	if err != nil {
		return nil, err
	}
	var done []v1.Hash
	for n, tag := range tags {
		if imagename.CheckTag(tag) != nil {
			return nil, fmt.Errorf(
				"push %s: an image in it has no tag: give %s:TAG, or --tag",
				source,
				to,
			)
		}
		if i := slices.Index(done, digests[n]); i >= 0 {
			all[i].Tags = append(all[i].Tags, tag)
			continue
		}
		done = append(done, digests[n])
		all = append(all, Transfer{From: source + ":" + tag, To: to + ":" + tag})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("push %s: it has no image", source)
	}
	return all, nil
}
