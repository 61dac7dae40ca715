package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/driver-container/driver-container/distros/rpm"
)

// lists reads the tables beside the table packages in parallel with it: all are ordered by the key of the
// package.
type lists struct {
	relations [4]*cursor // requires, provides, conflicts, obsoletes
	files     *cursor
}

func openLists(ctx context.Context, db *sql.DB) (*lists, error) {
	l := &lists{}
	for i, table := range []string{"requires", "provides", "conflicts", "obsoletes"} {
		c, err := openCursor(ctx, db, table, "SELECT pkgKey, name, flags, epoch, version, release FROM "+table+" ORDER BY pkgKey, rowid", 5)
		if err != nil {
			return l, err
		}
		l.relations[i] = c
	}
	var err error
	l.files, err = openCursor(ctx, db, "files", "SELECT pkgKey, name FROM files ORDER BY pkgKey, rowid", 1)
	return l, err
}

func (l *lists) close() (err error) {
	for _, c := range append(l.relations[:], l.files) {
		if c != nil {
			err = errors.Join(err, c.rows.Close())
		}
	}
	return err
}

// fill adds to a record the rows that the tables have for its key.
func (l *lists) fill(key int64, r *rpm.Record) error {
	for i, into := range []*[]rpm.RecordRelation{&r.Requires, &r.Provides, &r.Conflicts, &r.Obsoletes} {
		err := l.relations[i].take(key, func(v []string) error {
			*into = append(*into, rpm.RecordRelation{Name: v[0], Flags: v[1], Epoch: v[2], Version: v[3], Release: v[4]})
			return tooMany(len(*into))
		})
		if err != nil {
			return err
		}
	}
	return l.files.take(key, func(v []string) error {
		r.Files = append(r.Files, v[0])
		return tooMany(len(r.Files))
	})
}

// maxRows limits the rows of one table for one package; the largest kernels provide 10000 things.
const maxRows = 1 << 18

func tooMany(n int) error {
	if n > maxRows {
		return fmt.Errorf("%w: a package has more than %d rows", ErrSchema, maxRows)
	}
	return nil
}

// cursor reads a table one row at a time and may hold the next row.
type cursor struct {
	table string
	rows  *sql.Rows
	key   int64
	vals  []string
	into  []any
	ready bool // key and vals hold a row that take has not used yet
	ended bool
}

func openCursor(ctx context.Context, db *sql.DB, table, query string, columns int) (*cursor, error) {
	rows, err := db.QueryContext(ctx, query) //nolint:sqlclosecheck,rowserrcheck // lists.close and cursor.next
	if err != nil {
		return nil, fmt.Errorf("%w: table %s: %w", ErrSchema, table, err)
	}
	c := &cursor{table: table, rows: rows, vals: make([]string, columns)}
	c.into = append(c.into, &c.key)
	for i := range c.vals {
		c.into = append(c.into, text{&c.vals[i]})
	}
	return c, nil
}

// take passes the rows of a key to use. Rows with lower keys belong to no package and are dropped.
func (c *cursor) take(key int64, use func([]string) error) error {
	for {
		if !c.ready && !c.ended {
			if c.ended = !c.rows.Next(); c.ended {
				if err := c.rows.Err(); err != nil {
					return fmt.Errorf("%w: table %s: %w", ErrSchema, c.table, err)
				}
			} else if err := c.rows.Scan(c.into...); err != nil {
				return fmt.Errorf("%w: table %s: %w", ErrSchema, c.table, err)
			}
			c.ready = !c.ended
		}
		if c.ended || c.key > key {
			return nil
		}
		c.ready = false
		if c.key == key {
			if err := use(c.vals); err != nil {
				return err
			}
		}
	}
}

// text scans a column of any type as text; NULL is "".
type text struct{ to *string }

func (t text) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*t.to = ""
	case string:
		*t.to = v
	case []byte:
		*t.to = string(v)
	case int64:
		*t.to = strconv.FormatInt(v, 10)
	default:
		return fmt.Errorf("a column of type %T, want text", v)
	}
	return nil
}

// number scans a column that is a number or the text of one; NULL is 0.
type number struct{ to *int64 }

func (n number) Scan(v any) (err error) {
	switch v := v.(type) {
	case nil:
		*n.to = 0
	case int64:
		*n.to = v
	case string:
		*n.to, err = strconv.ParseInt(v, 10, 64)
	default:
		return fmt.Errorf("a column of type %T, want a number", v)
	}
	return err
}
