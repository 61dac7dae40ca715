package rpm

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros"
)

// seen is the newest index seen of a repository. Repositories have no expiry date; comparing with seen
// detects a mirror that withholds updates by serving an old index with its valid signature.
type seen struct {
	Repository string `json:"repository"` // identity, without secrets
	Revision   string `json:"revision"`
	Newest     int64  `json:"newest"` // newest time of a list, seconds since 1970
}

// file returns the path of the file that stores what was seen of a repository.
func (o Options) file(r *repo) string {
	key := sha256.Sum256([]byte(r.source.ID + "\x00" + r.identity))
	return filepath.Join(o.Remember, hex.EncodeToString(key[:16])+".json")
}

// recall returns the newest index seen of a repository; nil if there is none. A file that cannot be read
// counts as none: it is no reason to fail a build.
func (o Options) recall(r *repo) *seen {
	if o.Remember == "" {
		return nil
	}
	data, err := os.ReadFile(o.file(r))
	var s seen
	if err != nil || json.Unmarshal(data, &s) != nil || s.Repository != distros.HideSecrets(r.identity) {
		return nil
	}
	return &s
}

// notOlder returns ErrRollback if an index is older than the one that was seen.
func (o Options) notOlder(r *repo, md *repomd) error {
	s := o.recall(r)
	if s == nil || o.AllowRollback || compareIndexes(md, s) >= 0 {
		return nil
	}
	return fmt.Errorf("%w: this mirror serves revision %s, and %s was seen before; use another mirror, or allow older indexes",
		ErrRollback, describe(md.Revision, md.Newest), describe(s.Revision, s.Newest))
}

// compareIndexes returns a negative number if an index is older than the one that was seen. Revisions are
// mostly times, but need not be numbers, and a repository may change their kind. Therefore an index with a
// list that is newer than all lists before does not count as older.
func compareIndexes(r *repomd, s *seen) int {
	a, err1 := strconv.ParseInt(r.Revision, 10, 64)
	b, err2 := strconv.ParseInt(s.Revision, 10, 64)
	times := cmp.Compare(r.Newest, s.Newest)
	if err1 != nil || err2 != nil || a == b {
		return times
	}
	if a < b && times > 0 {
		return 0
	}
	return cmp.Compare(a, b)
}

func describe(revision string, newest int64) string {
	return fmt.Sprintf("%.40q of %s", revision, time.Unix(newest, 0).UTC().Format("2006-01-02 15:04"))
}

// remember stores an index if it is newer than the one that was seen.
func (o Options) remember(r *repo) error {
	if s := o.recall(r); o.Remember == "" || s != nil && compareIndexes(r.md, s) <= 0 {
		return nil
	}
	text, err := json.Marshal(seen{distros.HideSecrets(r.identity), r.md.Revision, r.md.Newest})
	if err == nil {
		err = os.MkdirAll(o.Remember, 0o755) //nolint:gosec // nothing in it is secret
	}
	if err == nil {
		err = atomicwriter.WriteFile(o.file(r), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember the revision of the repository: %w", err)
	}
	return nil
}
