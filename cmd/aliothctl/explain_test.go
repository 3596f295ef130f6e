// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cmd/aliothctl/explain"
)

func TestExplain_KnownWord_CauseAndRemedyPrinted(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{[]string{"SubnetExhausted"}, []string{"SubnetExhausted (reason of a pod)", "means:     no address is free", "do:        enlarge the subnet"}},
		{[]string{"NO_ENDPOINT"}, []string{"no_endpoint (reason of a drop)"}},
		{[]string{"alioth-pod-host"}, []string{"alioth-pod-host (admission policy)", "HostAccess"}},
		{[]string{"11"}, []string{"cni-11 (CNI code)"}},
		{[]string{"Error:", "no", "kubeconfig", "found"}, []string{"--kubeconfig"}},
	} {
		out, err := run(t, append([]string{"explain"}, c.words...)...)
		if err != nil {
			t.Errorf("%q: %v", c.words, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%q: want %q in\n%s", c.words, want, out)
			}
		}
	}
}

func TestExplain_UnknownWord_NearWordsSuggested(t *testing.T) {
	_, err := run(t, "explain", "SubnetExausted")
	if err == nil || !strings.Contains(err.Error(), "did you mean SubnetExhausted") || exitStatus(err) != 2 {
		t.Errorf("got %v", err)
	}
	if _, err := run(t, "explain", "weather-forecast"); err == nil || !strings.Contains(err.Error(), "lists all") {
		t.Errorf("got %v", err)
	}
}

func TestExplain_JSONOutput_EntriesDecoded(t *testing.T) {
	out, err := run(t, "explain", "VPCNotFound", "-o", "json")
	var entries []explain.Entry
	if err != nil || json.Unmarshal([]byte(out), &entries) != nil || len(entries) < 2 || entries[0].Remedy == "" {
		t.Errorf("%v, %+v of\n%s", err, entries, out)
	}
}

func TestExplain_NoWord_AllListed(t *testing.T) {
	out, err := run(t, "explain")
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Split(strings.TrimSpace(out), "\n")
	if len(listed) < 200 || !slices.IsSorted(listed) {
		t.Errorf("%d words, sorted %t", len(listed), slices.IsSorted(listed))
	}
	completed := printed(t, "aliothctl", "__complete", "explain", "SubnetEx")
	if !strings.Contains(completed, "SubnetExhausted\n") {
		t.Errorf("completed to\n%s", completed)
	}
}
