// Package blobstat remembers which blobs of an OCI layout this cache has written or verified, as version
// control programs do: by size, inode, and times of modification and change. A blob that has all of them
// still is not hashed again. The cache's own folder of blobs counts as a layout.
//
// It does not verify: `driver-build verify` and every reader of a layout hash what they read.
package blobstat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/moby/sys/atomicwriter"
	"golang.org/x/sys/unix"
)

// tick is longer than the kernel's clock of files stands still: a file that is changed later than that after
// its last change has other times. A file system with whole seconds has ticks of coarseTick.
const (
	tick       = 20 * time.Millisecond
	coarseTick = 2 * time.Second
)

// maxRecord bounds the record of a layout, in bytes. A blob has 150 of them.
const maxRecord = 64 << 20

// saveEvery is how often a call that writes many images saves the record.
const saveEvery = 10 * time.Second

type stat struct {
	Size   int64  `json:"size"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	MTime  int64  `json:"mtime"` // in nanoseconds, like:
	CTime  int64  `json:"ctime"`
}

// Record is what is known of one layout. It is safe for concurrent use.
type Record struct {
	file, dir string
	mu        sync.Mutex
	blobs     map[string]stat // by name
	changed   bool
	saved     time.Time // when it was read or written
}

// Open reads the record of a folder of blobs. A record that cannot be read counts as empty. With no cache the
// record is always empty.
func Open(cache, dir string) *Record {
	r := &Record{dir: dir, blobs: map[string]stat{}, saved: time.Now()}
	absolute, err := filepath.Abs(dir)
	if cache == "" || err != nil {
		return r
	}
	sum := sha256.Sum256([]byte(absolute))
	r.file = filepath.Join(cache, "layouts", hex.EncodeToString(sum[:])+".json")
	r.blobs = readRecord(r.file)
	return r
}

func readRecord(file string) map[string]stat {
	blobs := map[string]stat{}
	info, err := os.Stat(file)
	if err != nil || info.Size() > maxRecord {
		return blobs
	}
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &blobs) != nil || blobs == nil {
		return map[string]stat{}
	}
	return blobs
}

// Has says whether a blob of that size was verified and has not changed since.
func (r *Record) Has(name string, size int64) bool {
	r.mu.Lock()
	known, ok := r.blobs[name]
	r.mu.Unlock()
	now, err := read(filepath.Join(r.dir, name))
	return ok && err == nil && known == now && now.Size == size
}

// Add notes a blob that was verified, or written, just now.
func (r *Record) Add(name string) {
	s, err := read(filepath.Join(r.dir, name))
	if err != nil || r.file == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[name], r.changed = s, true
}

// SaveSometimes writes the record if that was last done a while ago, so that a call that writes many images
// and is killed loses little. A blob that changed so recently that another change would not show is left out.
func (r *Record) SaveSometimes() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.saved) < saveEvery {
		return nil
	}
	return r.save()
}

// Save writes the record. It waits for a tick, so that most blobs that were just written can be in it; the
// others are verified again the next time.
func (r *Record) Save(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == "" || !r.changed {
		return nil
	}
	select {
	case <-time.After(tick):
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.save()
}

// save adds what is known to the file. Another process may have written it meanwhile; if both write at the
// same time, what one of them knew is lost, and verified again.
func (r *Record) save() error {
	if r.file == "" || !r.changed {
		return nil
	}
	all := readRecord(r.file)
	maps.Copy(all, r.blobs)
	young := false
	for name, s := range all {
		now, err := read(filepath.Join(r.dir, name))
		switch {
		case err != nil || now != s:
			delete(r.blobs, name)
			delete(all, name)
		case s.isYoung(time.Now()):
			young = true
			delete(all, name)
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.file), 0o755); err != nil {
		return err
	}
	if err := atomicwriter.WriteFile(r.file, data, 0o644); err != nil {
		return err
	}
	r.changed, r.saved = young, time.Now()
	return nil
}

func (s stat) isYoung(now time.Time) bool {
	wait := tick
	if s.CTime%int64(time.Second) == 0 {
		wait = coarseTick
	}
	return now.UnixNano()-s.CTime < int64(wait)
}

func read(path string) (s stat, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return s, err
	}
	return stat{Size: st.Size, Device: uint64(st.Dev), Inode: st.Ino, MTime: st.Mtim.Nano(), CTime: st.Ctim.Nano()}, nil //nolint:unconvert // another type on macOS
}
