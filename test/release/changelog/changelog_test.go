// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package changelog

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/alioth-net/alioth/api/version"
)

const example = `# Changelog

## Unreleased

### Added
- **One.** A thing.

### Removed

## 1.1.0 (2026-12-01)
An introduction.

### Fixed
- A fault.

### Upgrade notes
| a | b |

## 1.0.0 (2026-11-01)

### Added
- All.
`

func TestNotes_Version_SectionWithoutEmptyGroups(t *testing.T) {
	for wanted, want := range map[string]string{
		"1.2.0-dev": "# Alioth 1.2.0-dev\n\n## Added\n- **One.** A thing.\n",
		"1.1.0":     "# Alioth 1.1.0 (2026-12-01)\n\nAn introduction.\n\n## Fixed\n- A fault.\n\n## Upgrade notes\n| a | b |\n",
		"1.0.0":     "# Alioth 1.0.0 (2026-11-01)\n\n## Added\n- All.\n",
	} {
		if got, err := Notes(example, wanted); err != nil || got != want {
			t.Errorf("notes of %s: %v\n%s\nwant\n%s", wanted, err, got, want)
		}
	}
	if _, err := Notes(example, "3.0.0"); err == nil {
		t.Error("a version without a section has notes")
	}
}

func TestSections_OtherHeading_Refused(t *testing.T) {
	for _, line := range []string{"## 1.0.0", "## v1.0.0 (2026-11-01)", "## Unreleased (2026-11-01)", "## 1.0.0 (1 November)", "## Next"} {
		if _, err := Sections(line + "\n"); err == nil {
			t.Errorf("%q is a heading", line)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// At the commit of a release the changelog has the version, and the list of releases does not,
// because a commit can't contain its own hash.
func TestReleases_VersionListChangelog_Agree(t *testing.T) {
	releases, err := Releases(read(t, "docs/install/releases.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sections, err := Sections(string(read(t, "CHANGELOG.md")))
	if err != nil {
		t.Fatal(err)
	}
	if len(sections) == 0 || sections[0].Version != Unreleased {
		t.Fatal("the changelog does not begin with the section Unreleased")
	}
	var listed, described []string
	var above time.Time
	for _, r := range releases {
		listed = append(listed, r.Version+" "+r.Date)
		if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(r.Commit) {
			t.Errorf("the commit %q of release %s is no hash", r.Commit, r.Version)
		}
		day, err := time.Parse(time.DateOnly, r.Date)
		if err != nil || !above.IsZero() && day.After(above) {
			t.Errorf("release %s has the date %q (%v), want a day that is not after the one of the release above", r.Version, r.Date, err)
		}
		above = day
	}
	for _, s := range sections[1:] {
		described = append(described, s.Version+" "+s.Date)
	}
	if !strings.Contains(version.Number, "-") {
		if len(described) == 0 || !strings.HasPrefix(described[0], version.Number+" ") {
			t.Fatalf("api/version names the release %s, and the first release in the changelog is another: %q", version.Number, described)
		}
		described = described[1:]
	}
	if !slices.Equal(listed, described) {
		t.Errorf("docs/install/releases.yaml lists %q, and the changelog has %q", listed, described)
	}
	newer := utilversion.MustParseSemantic(version.Number)
	for _, r := range releases {
		if older, err := utilversion.ParseSemantic(r.Version); err != nil || !older.LessThan(newer) {
			t.Errorf("release %s is not older than the next one: %v", r.Version, err)
		} else {
			newer = older
		}
	}
}

func TestChangelog_Sections_KnownGroupsInOrder(t *testing.T) {
	sections, err := Sections(string(read(t, "CHANGELOG.md")))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		at := -1
		for _, group := range s.Groups {
			next := slices.Index(Groups(), group)
			if next <= at {
				t.Errorf("section %s: the group %q is unknown, or not in the order %q", s.Version, group, Groups())
			}
			at = max(at, next)
		}
	}
}
