package kmod

import "testing"

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (a b) c) S 7 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1"))
	f.Add([]byte("12 (x) Z 1 1"))
	f.Add([]byte(") "))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, ok := ParseStat(b); ok && (st.Begun == "" || st.Parent < 0) {
			t.Errorf("%q: %+v", b, st)
		}
	})
}
