// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead_Blocks_StepsWithOutput(t *testing.T) {
	steps, err := Read("# Title\n```sh\nkubectl get pods\n```\nIt shows:\n```text\nNAME\n```\n```sh fails\nfalse\n```\n")
	want := []Step{
		{Line: 2, Commands: "kubectl get pods\n", Shown: "NAME\n", Shows: true},
		{Line: 9, Commands: "false\n", Fails: true},
	}
	if diff := cmp.Diff(want, steps); err != nil || diff != "" {
		t.Errorf("error %v, steps (-want +got):\n%s", err, diff)
	}
}

func TestRead_UnusableREADME_Refused(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "no block",
		"only words":         "no block",
		"```bash\nls\n```\n": "nothing is done with a block \"bash\"",
		"```\nls\n```\n":     "nothing is done with a block \"\"",
		"```text\nx\n```\n":  "line 1: the output belongs to no commands",
		"```sh\nls\n":        "line 1: the block has no end",
		"x ```sh\nls\n```\n": "line 1: a fence",
		"```sh\nls\n```\n```text\na\n```\n```text\nb\n```\n": "line 7: the output belongs to no commands",
	} {
		if steps, err := Read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: steps %v, error %v; want %q", text, steps, err, want)
		}
	}
}

func TestStep_Commands_OnlyReadingRepeatable(t *testing.T) {
	for commands, want := range map[string]bool{
		"kubectl get pods -n first":             true,
		"kubectl exec client -- wget -qO- http": true,
		"ip=$(kubectl get pod)\ncurl $ip":       true,
		"kubectl apply -f tenant.yaml":          false,
		"kubectl get pods\nkubectl delete -f .": false,
		"kubectl patch vpc x":                   false,
		"helm upgrade alioth helm/alioth":       false,
	} {
		if got := (Step{Commands: commands}).Repeatable(); got != want {
			t.Errorf("%q: repeatable %v, want %v", commands, got, want)
		}
	}
}

func TestMatch_Output_ComparedWithShown(t *testing.T) {
	const shown = "NAME   READY   AGE\nweb    True    <age>\n"
	for output, want := range map[string]bool{
		"NAME READY AGE\nweb   True   3m5s\n":           true,
		"NAME READY AGE\nweb   True   3m5s\n\n":         true,
		"NAME READY AGE\nweb   False  3m5s\n":           false,
		"NAME READY AGE\nweb   True\n":                  false,
		"NAME READY AGE\nweb   True   3m5s\ndb True 1s": false,
		"web   True   3m5s\n":                           false,
		"":                                              false,
	} {
		if err := Match(shown, output); (err == nil) != want {
			t.Errorf("%q: error %v, matches: want %v", output, err, want)
		}
	}
}

func TestMatch_Wildcards_WordsAndLines(t *testing.T) {
	for _, c := range []struct {
		shown, output string
		want          bool
	}{
		{"...\nThe end.", "one\ntwo\nThe end.", true},
		{"...\nThe end.", "The end.", true},
		{"...\nThe end.", "The end.\nMore.", false},
		{"first\n...", "first\nsecond", true},
		{"first\n...", "second", false},
		{"[<ip>]:80", "[10.0.0.1]:80", true},
		{"[<ip>]:80", "[]:80", false},
		{"at <ip>", "at 10.0.0.1 now", false},
		{"a.c", "abc", false},
		{"", "", true},
		{"", "something", false},
		{"met", `E1130 15:09:49.872621    1405 reflector.go:227] "Failed to watch" err="Get \"https://x/pods\": context canceled" reflector="y"` + "\nmet\n", true},
		{"met", `E1130 15:09:49.872621    1405 reflector.go:227] "Failed to watch" err="Get \"https://x/pods\": refused" reflector="y"` + "\nmet\n", false},
	} {
		if err := Match(c.shown, c.output); (err == nil) != c.want {
			t.Errorf("%q shown, %q printed: error %v, matches: want %v", c.shown, c.output, err, c.want)
		}
	}
}
