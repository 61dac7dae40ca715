package rpmdb

import (
	"encoding/binary"
	"fmt"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// ErrFormat means that a database is damaged, of an unknown version, or larger than the bounds.
var ErrFormat = failure.New(failure.Content, "not a valid rpm database")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

// Upper bounds for files that are read.
const (
	MaxBytes   = 512 << 20 // of a database file, and of all blobs together
	MaxBlob    = 64 << 20  // bytes of one blob
	MaxRecords = 200000    // a typical system has a few hundred packages, a large one 5000
	MaxNumber  = 1<<31 - 1 // rpm's numbers are positive and 32 bits long
)

// le is the byte order of all numbers: systems of other processors have no drivers.
var le = binary.LittleEndian

// Record is an installed package.
type Record struct {
	Number uint32 // not 0
	Blob   []byte
	Stamp  uint32          // ndb only: when it was written, seconds since 1970
	Header *rpmfile.Header // of Blob; the functions that read a file leave it out
}

// Contents is the content of a file: the records, after reading in any order, and the highest
// number ever assigned.
type Contents struct {
	Records []Record
	Last    uint32
}

// Add appends a record after checking the bounds; total is increased by its size and counts the
// bytes of all blobs. Errors are ErrFormat.
func (c *Contents) Add(r Record, total *int) error {
	*total += len(r.Blob)
	switch {
	case r.Number == 0 || r.Number > MaxNumber:
		return damaged("a package has the number %d", r.Number)
	case len(r.Blob) == 0 || len(r.Blob) > MaxBlob:
		return damaged("the header of package %d has %d bytes", r.Number, len(r.Blob))
	case *total > MaxBytes || len(c.Records) == MaxRecords:
		return damaged("more than %d packages, or %d bytes of headers", MaxRecords, MaxBytes)
	}
	c.Records = append(c.Records, r)
	c.Last = max(c.Last, r.Number)
	return nil
}
