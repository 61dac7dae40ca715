// Package flagtest tests that a flag has one meaning in all commands of all programs. It reads the help texts
// that the tests of the programs keep, and changes nothing.
package flagtest
