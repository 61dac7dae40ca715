package rpmfile

import (
	"crypto"
	_ "crypto/sha256" // the digests that headers name
	_ "crypto/sha512"
	"encoding/hex"
	"errors"
	"strings"
)

// The bits of a file's mode that say its kind.
const (
	modeKind    = 0o170000
	modeRegular = 0o100000
	modeFolder  = 0o040000
	modeLink    = 0o120000
	modeSetUser = 0o4000
	modeSetGrp  = 0o2000
)

const flagGhost = 1 << 6 // the package owns the name, but has no content for it

// file is one file of a package, with the data of the header.
type file struct {
	path        string // as written in the header, mostly absolute
	mode        uint16
	size        int64
	digest      string // hex, SHA-256 or better; "" if there is none
	target      string // of a symbolic link
	flags       uint64
	user, group string
	mtime       int64
	id          [2]uint64 // device and inode: the same for all names of one file
	caps        string
}

func (x file) kind() uint16 { return x.mode & modeKind }
func (x file) ghost() bool  { return x.flags&flagGhost != 0 }

// hashOf returns the hash function for rpm's number of an algorithm, which is OpenPGP's; false if
// it is weaker than SHA-256. The default of headers is 1, MD5.
func hashOf(algorithm uint64) (crypto.Hash, bool) {
	h, ok := map[uint64]crypto.Hash{8: crypto.SHA256, 9: crypto.SHA384, 10: crypto.SHA512}[algorithm]
	return h, ok
}

// fileHash returns the hash function of the files' digests; false if it is too weak.
func (h *Header) fileHash() (crypto.Hash, bool) {
	algorithm, _ := h.Int(TagFileDigestAlgo)
	return hashOf(algorithm)
}

// payloadDigest returns the digest of the payload as it is stored in the file, in hex; "" if there
// is none, or only a weak one.
func (f *File) payloadDigest() (crypto.Hash, string) {
	algorithm, _ := f.Header.Int(TagPayloadDigestAlgo)
	h, ok := hashOf(algorithm)
	sum := strings.ToLower(f.Header.Text(TagPayloadDigest))
	if !ok || !isHex(sum, h.Size()) {
		return 0, ""
	}
	return h, sum
}

func isHex(s string, size int) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == size
}

// fileList combines the header's arrays into a list of files. Only modes and sizes are mandatory.
func (h *Header) fileList() ([]file, error) {
	paths, err := h.paths()
	if err != nil {
		return nil, err
	}
	all := make([]file, len(paths))
	for i := range all {
		all[i].path = paths[i]
		// different for each file, until the header says otherwise
		all[i].id = [2]uint64{0, uint64(i) + 1<<32}
	}
	sizes := TagFileSizes
	if h.Has(TagLongFileSizes) {
		sizes = TagLongFileSizes
	}
	for _, tag := range []Tag{TagFileModes, sizes} {
		if len(all) > 0 && len(h.Ints(tag)) == 0 {
			return nil, malformed("%d files, tag %d has no values", len(all), tag)
		}
	}
	linked := h.Has(TagFileInodes) && h.Has(TagFileDevices)
	hash, counts := h.fileHash()
	for tag, set := range map[Tag]func(x *file, n uint64){
		TagFileModes:  func(x *file, n uint64) { x.mode = uint16(n) },
		sizes:         func(x *file, n uint64) { x.size = int64(n) },
		TagFileFlags:  func(x *file, n uint64) { x.flags = n },
		TagFileMTimes: func(x *file, n uint64) { x.mtime = int64(n) },
		TagFileDevices: func(x *file, n uint64) {
			if linked {
				x.id[0] = n
			}
		},
		TagFileInodes: func(x *file, n uint64) {
			if linked && n > 0 {
				x.id[1] = n
			}
		},
	} {
		err = errors.Join(err, column(all, tag, h.Ints(tag), set))
	}
	for tag, set := range map[Tag]func(x *file, s string){
		TagFileLinkTos:   func(x *file, s string) { x.target = s },
		TagFileUserName:  func(x *file, s string) { x.user = s },
		TagFileGroupName: func(x *file, s string) { x.group = s },
		TagFileCaps:      func(x *file, s string) { x.caps = s },
		TagFileDigests: func(x *file, s string) {
			s = strings.ToLower(s)
			if counts && isHex(s, hash.Size()) {
				x.digest = s
			}
		},
	} {
		err = errors.Join(err, column(all, tag, h.Texts(tag), set))
	}
	return all, err
}

// column passes each file its value in one array of the header, which may be missing.
func column[T any](all []file, tag Tag, values []T, set func(*file, T)) error {
	if len(values) != len(all) && len(values) > 0 {
		return malformed("%d files, tag %d has %d values", len(all), tag, len(values))
	}
	for i, v := range values {
		set(&all[i], v)
	}
	return nil
}
