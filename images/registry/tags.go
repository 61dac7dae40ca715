package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/sys/atomicwriter"
)

// tagRecord is the cache's record of a tag: cache/tags/<sha256 of the name>.json. It is used only offline.
type tagRecord struct {
	Name   string  `json:"name"` // full repository:tag, so that people can read the files
	Digest v1.Hash `json:"digest"`
}

func (c *Client) tagFile(r reference) string {
	sum := sha256.Sum256([]byte(r.canonical()))
	return filepath.Join(c.opts.Store.Dir(), "tags", hex.EncodeToString(sum[:])+".json")
}

func (c *Client) rememberTag(r reference, h v1.Hash) error {
	if old, ok := c.recallTag(r); ok && old == h {
		return nil
	}
	b, err := json.Marshal(tagRecord{Name: r.canonical(), Digest: h})
	if err != nil {
		return err
	}
	path := c.tagFile(r)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("remember what %s is: %w", r.text, err)
	}
	if err := atomicwriter.WriteFile(path, b, 0o644); err != nil {
		return fmt.Errorf("remember what %s is: %w", r.text, err)
	}
	return nil
}

// recallTag returns the digest that a tag had when it was last resolved. A record that cannot be read counts
// as missing.
func (c *Client) recallTag(r reference) (v1.Hash, bool) {
	b, err := os.ReadFile(c.tagFile(r))
	if err != nil {
		return v1.Hash{}, false
	}
	var rec tagRecord
	if json.Unmarshal(b, &rec) != nil || rec.Name != r.canonical() || rec.Digest.Algorithm != "sha256" {
		return v1.Hash{}, false
	}
	return rec.Digest, true
}
