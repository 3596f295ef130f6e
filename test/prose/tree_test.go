// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package prose

import (
	"flag"
	"maps"
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "lower the numbers of known.yaml to those found")

const (
	root  = "../.."
	known = "known.yaml"
)

// TestTree_NewPhrases_Refused compares the number of phrases of each area with known.yaml, whose
// numbers only fall.
func TestTree_NewPhrases_Refused(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Tree(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(known)
	if err != nil {
		t.Fatal(err)
	}
	permitted, found := map[string]int{}, map[string]int{}
	if err := yaml.Unmarshal(text, &permitted); err != nil {
		t.Fatal(err)
	}
	byArea := map[string][]Finding{}
	for _, f := range list {
		found[f.Area()]++
		byArea[f.Area()] = append(byArea[f.Area()], f)
	}
	for _, area := range slices.Sorted(maps.Keys(byArea)) {
		if found[area] <= permitted[area] {
			continue
		}
		for _, f := range byArea[area] {
			t.Log(f)
		}
		t.Errorf("%s has %d such phrases, and known.yaml permits %d: write the new ones anew", area, found[area], permitted[area])
	}
	lower(t, permitted, found)
}

// lower demands that known.yaml follows when phrases are gone, or writes it.
func lower(t *testing.T, permitted, found map[string]int) {
	t.Helper()
	for area, n := range permitted {
		if found[area] < n && !*update {
			t.Errorf("%s has only %d such phrases, and known.yaml has %d: run go test ./test/prose -update", area, found[area], n)
		}
	}
	if !*update {
		return
	}
	for area, n := range found {
		if have, ok := permitted[area]; ok {
			found[area] = min(n, have)
		}
	}
	text, err := yaml.Marshal(found)
	if err == nil {
		err = os.WriteFile(known, append([]byte("# How many phrases of rules.yaml each area still has. The numbers only fall.\n"), text...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
