package registry

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// tagRecord is the kind of the cache's records of tags, which are used only offline.
const tagRecord = "tag"

func (c *Client) rememberTag(r reference, h v1.Hash) error {
	if old, ok := c.recallTag(r); ok && old == h {
		return nil
	}
	return c.opts.Store.Note(tagRecord, r.canonical(), "", h)
}

// recallTag returns the digest that a tag had when it was last resolved. A record that cannot be read counts
// as missing.
func (c *Client) recallTag(r reference) (h v1.Hash, ok bool) {
	_, ok = c.opts.Store.Lookup(tagRecord, r.canonical(), &h)
	return h, ok && h.Algorithm == "sha256"
}
