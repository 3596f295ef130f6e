// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package changelog reads CHANGELOG.md and the list of releases. It is pure.
package changelog

import (
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Release is a release that was made. docs/install/releases.yaml lists them, newest first.
type Release struct {
	// Version is the number without a "v".
	Version string `json:"version"`
	// Commit is the hash of the commit, in full.
	Commit string `json:"commit"`
	// Date is the day of the release.
	Date string `json:"date"`
}

// Releases reads the list of releases.
func Releases(text []byte) (list []Release, err error) {
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, fmt.Errorf("read the list of releases: %w", err)
	}
	return list, nil
}

// Unreleased is the version of the section for changes that no release has.
const Unreleased = "Unreleased"

// Section is the part of the changelog about one release.
type Section struct {
	// Version is the number of the release, or Unreleased.
	Version string
	// Date is the day of the release, as in the heading.
	Date string
	// Groups returns the headings below the section's own.
	Groups []string
	// Text is the section without its heading.
	Text string
}

// heading is the heading of a section: "## Unreleased", or "## 0.1.0 (2026-11-29)".
var heading = regexp.MustCompile(`^## (Unreleased|\d+\.\d+\.\d+\S*)(?: \((\d{4}-\d{2}-\d{2})\))?$`)

// Sections returns the sections of a changelog, in its order.
func Sections(text string) ([]Section, error) {
	var sections []Section
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "## ") {
			parts := heading.FindStringSubmatch(strings.TrimSpace(line))
			if parts == nil || (parts[1] == Unreleased) != (parts[2] == "") {
				return nil, fmt.Errorf(
					"the heading %q is neither \"## Unreleased\" nor like \"## 1.2.3 (2006-01-02)\"",
					strings.TrimSpace(line),
				)
			}
			sections = append(sections, Section{Version: parts[1], Date: parts[2]})
			continue
		}
		if len(sections) == 0 {
			continue
		}
		last := &sections[len(sections)-1]
		last.Text += line
		if group, ok := strings.CutPrefix(line, "### "); ok {
			last.Groups = append(last.Groups, strings.TrimSpace(group))
		}
	}
	return sections, nil
}

// Groups returns the groups of changes, in their order. The last one has the steps before and after
// an upgrade.
func Groups() []string {
	return []string{"Added", "Changed", "Fixed", "Removed", "Security", "Upgrade notes"}
}

// Notes returns the release notes of a version: its section without empty groups. A version
// between two releases, which has a hyphen in its number, has the section Unreleased.
func Notes(changelog, version string) (string, error) {
	sections, err := Sections(changelog)
	if err != nil {
		return "", err
	}
	wanted := version
	if strings.Contains(version, "-") {
		wanted = Unreleased
	}
	for _, section := range sections {
		if section.Version == wanted {
			return section.notes(version), nil
		}
	}
	return "", fmt.Errorf("the changelog has no section %q", wanted)
}

func (s Section) notes(version string) string {
	title := "# Alioth " + version
	if s.Date != "" {
		title += " (" + s.Date + ")"
	}
	kept := []string{title}
	for i, group := range strings.Split("\n"+s.Text, "\n### ") {
		name, body, _ := strings.Cut(group, "\n")
		switch body = strings.TrimSpace(body); {
		case body == "":
		case i == 0:
			kept = append(kept, body)
		default:
			kept = append(kept, "## "+name+"\n"+body)
		}
	}
	return strings.Join(kept, "\n\n") + "\n"
}
