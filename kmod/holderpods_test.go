package kmod

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func TestPodOf(t *testing.T) {
	t.Parallel()
	s := System{Proc: t.TempDir(), Root: t.TempDir()}
	for _, folder := range []string{
		"team-a_train-0_" + testUID, "kube-system_kube-apiserver-node.example.org_" + static, "a_b_c_" + testUID, "_x_" + testUID, "../x_y_z", "UPPER_x_" + static,
		"a_b_" + strings.ToUpper(testUID), "a_b_", "readme",
	} {
		testfile.Write(t, s.Root+"/var/log/pods/"+strings.ReplaceAll(folder, "/", "-")+"/", "")
	}
	for uid, want := range map[string][2]string{
		testUID: {"team-a", "train-0"}, static: {"kube-system", "kube-apiserver-node.example.org"}, "": {}, "unknown": {}, "z": {},
	} {
		if namespace, name := s.PodOf(uid); namespace != want[0] || name != want[1] {
			t.Errorf("%q: %s/%s, want %q", uid, namespace, name, want)
		}
	}
	testfile.Write(t, s.proc("1/root/var/log/pods/host_first_"+testUID)+"/", "") // the host's root has precedence over this container's
	if namespace, name := s.PodOf(testUID); namespace != "host" || name != "first" {
		t.Errorf("%s/%s", namespace, name)
	}
	if h := (System{Proc: t.TempDir()}).Process(7); h.PID != 7 || h.String() != "pid 7 ()" {
		t.Errorf("a process that is gone: %+v", h)
	}
}

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
