// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedFolders have tests with names of the form. The other folders follow.
var namedFolders = []string{"api", "cmd", "cnid", "ebpf", "operator", "store", "test"}

// mostWords is how many words the name of a test has.
const mostWords = 8

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	formOfNames  = regexp.MustCompile(`^Test[A-Z][A-Za-z0-9]*_[A-Z][A-Za-z0-9]*_[A-Z][A-Za-z0-9]*$`)
)

// wordsOf returns how many words the name of a test has.
func wordsOf(name string) (count int) {
	for _, part := range strings.Split(strings.TrimPrefix(name, "Test"), "_") {
		before := rune('_')
		runes := []rune(part)
		for i, r := range runes {
			upper := r >= 'A' && r <= 'Z'
			wasUpper := before >= 'A' && before <= 'Z'
			next := i+1 < len(runes) && runes[i+1] >= 'a' && runes[i+1] <= 'z'
			if upper && (!wasUpper || next && !strings.HasPrefix(string(runes[i:]), "Pv") && !isPlural(runes[i:])) {
				count++
			}
			before = r
		}
	}
	return count
}

// isPlural reports whether an initialism in the plural ends here, such as the C of VPCs.
func isPlural(rest []rune) bool {
	return len(rest) >= 2 && rest[1] == 's' && (len(rest) == 2 || rest[2] >= 'A' && rest[2] <= 'Z')
}

// TestTestNames_NamedFolders_HaveTheForm: TestSubject_Condition_Result says what failed.
func TestTestNames_NamedFolders_HaveTheForm(t *testing.T) {
	checked := 0
	for _, folder := range namedFolders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, found := range testFunction.FindAllStringSubmatch(string(text), -1) {
				checked++
				if name := found[1]; !formOfNames.MatchString(name) || wordsOf(name) > mostWords {
					t.Errorf("%s: %s: want TestSubject_Condition_Result in at most %d words, got %d", strings.TrimPrefix(path, root+"/"), name, mostWords, wordsOf(name))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if checked < 1000 {
		t.Errorf("only %d names were checked", checked)
	}
}

func TestWordsOf_Initialisms_CountAsOne(t *testing.T) {
	for name, want := range map[string]int{
		"TestGate_Wait_ReturnsWhenItOpens": 6, "TestVPCs_MTUBelow1280_IPv6Off": 5, "TestDELAndADD_Both_OK": 5,
	} {
		if got := wordsOf(name); got != want {
			t.Errorf("%s has %d words, want %d", name, got, want)
		}
	}
}
