package releases

import (
	"context"
	"fmt"
	"time"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
)

// publicPatience bounds the question to NVIDIA's server that the user did not ask for: the built-in table is
// there.
const publicPatience = 15 * time.Second

// Source is where NVIDIA's list of releases is read.
type Source struct {
	Address string // "": the public list, where it can be reached
	Name    string // what messages call the address
	None    bool   // no list: the built-in table alone
	Offline bool   // the list comes from an earlier download

	// Read reads the newest state of a file, of at most so many bytes.
	Read func(ctx context.Context, address string, limit int64) ([]byte, error)
}

// Known is the table of the drivers there are, and what the user should know about where it comes from.
type Known struct {
	*Table
	Notes []string
}

// Load joins the built-in table with NVIDIA's list. A list that the caller names and that is not available is
// an error, and so is a malformed list. The public list may be missing: a note says so.
func Load(ctx context.Context, s Source) (Known, error) {
	table, err := Builtin()
	if err != nil || s.None {
		return Known{Table: table}, err
	}
	if s.Address != "" {
		text, err := s.Read(ctx, s.Address, MaxSize)
		if err != nil {
			return Known{}, fmt.Errorf("--releases %s: %w", s.Name, err)
		}
		known, err := table.withList(text, s.Address)
		if err != nil {
			return Known{}, matrix.RequestErrorf("--releases %s: %w", s.Name, err)
		}
		return known, nil
	}
	text, err := s.readPublic(ctx)
	var known Known
	if err == nil {
		known, err = table.withList(text, Address)
	}
	switch {
	case err == nil && s.Offline:
		known.Notes = append([]string{"NVIDIA's list of releases is that of the last download (--offline)"}, known.Notes...)
	case err != nil && ctx.Err() != nil:
		return Known{}, context.Cause(ctx)
	case err != nil:
		return Known{table, []string{fmt.Sprintf("NVIDIA's list of releases could not be read, the built-in table is used: %v", err)}}, nil
	}
	return known, nil
}

// withList adds the text of a list.
func (t *Table) withList(text []byte, address string) (Known, error) {
	fresh, notes, err := Parse(text)
	if err != nil {
		return Known{}, err
	}
	known := Known{Table: t.With(fresh)}
	for _, n := range notes {
		known.Notes = append(known.Notes, address+": "+n)
	}
	return known, nil
}

func (s Source) readPublic(ctx context.Context) ([]byte, error) {
	cause := fmt.Errorf("%w within %v", fetch.ErrUnreachable, publicPatience)
	ctx, cancel := context.WithTimeoutCause(ctx, publicPatience, cause)
	defer cancel()
	text, err := s.Read(ctx, Address, MaxSize)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return text, err
}
