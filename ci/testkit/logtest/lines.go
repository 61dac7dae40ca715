package logtest

// Regular expressions for lines that tests in virtual machines wait for (ci/lab). The packages that
// log such a line have a test that compares it with these.
const (
	Ready          = `ready driver=`
	Up             = `the driver is up driver=\S+ flavour=proprietary kernel=\S+ duration=`
	NotReady       = `not ready: `
	Unfit          = `waiting for a fit node every=1m0s: `
	PhaseFinished  = ` phase finished phase=`
	Adopting       = `is loaded as wanted, adopting it driver=`
	Completing     = `is loaded in part, adopting and completing it driver=`
	ToBeReplaced   = `a driver is loaded that has to be replaced: `
	WaitsToReplace = `waiting to replace the driver driver=`
	Unloading      = `unloading the driver driver=`
	Unloaded       = `driver unloaded, root unmounted`
	LeftInPlace    = `warning: left in place: `
	LockWait       = `waiting for the lock path=\S+ holder="`
	LockRecreated  = `lock file recreated: `
	Staged         = `driver root staged path=`
	Compiling      = `compiling driver=`
	Progress       = `compile progress done=\d+ total=\d+ duration=`
	DaemonDown     = `daemon is down, starting it again daemon=`
)
