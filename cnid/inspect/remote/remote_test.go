// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"strings"
	"testing"
)

// Users of aliothctl did not give the command that runs in the daemon's pod, so errors do not
// show it.
func TestRemoteError_CommandFails_CommandWordsReturned(t *testing.T) {
	exit := errors.New("command terminated with exit code 2")
	for _, c := range []struct {
		err         error
		words, want string
	}{
		{nil, "a warning", ""},
		{exit, "Error: node1 has no such pod\n", "node1 has no such pod"},
		{exit, "panic: no memory", "panic: no memory"},
		{exit, " \n", "pod cnid-x gives no answer: command terminated with exit code 2"},
	} {
		err := failed("cnid-x", c.err, c.words)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%q: the error %v does not wrap %v", c.words, err, c.err)
		}
		if err != nil && (err.Error() != c.want || strings.Contains(err.Error(), "aliothctl")) {
			t.Errorf("%q: the error is %q, want %q", c.words, err, c.want)
		}
	}
}
