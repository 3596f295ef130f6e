// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version names a program's release and the commit that it was built from.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Number is the number of the release, by Semantic Versioning 2.0.0, without the "v" of its
// tag. Between two releases it is the number of the next one with "-dev". No other file decides
// it: `make generate` writes it into the chart.
const Number = "0.2.0-dev"

// The linker sets these variables in the builds of the Makefile, of images and of releases
// (test/release/stamp). modified is "true" if the sources differed from the commit.
var commit, date, modified string

// State is the number of the format of everything that outlives processes: API objects, the
// journal and the other files of a node, and pinned maps. A change that an older release can't
// work with raises it; docs/operate/upgrade.md lists the numbers by release. An operator does not
// lead over the state of a higher number, and the chart refuses to install one there.
const State = 1

// Info describes a program. Commit and Date are empty if the commit is unknown.
type Info struct {
	// Version is Number with a "v" before it, for example v0.1.0.
	Version string `json:"version"`
	// Commit is the hash of the commit, in full.
	Commit string `json:"commit,omitempty"`
	// Date is the time of the commit, by RFC 3339, so that two builds of a commit are equal.
	Date string `json:"date,omitempty"`
	// Modified is true if the sources differed from the commit.
	Modified bool `json:"modified,omitempty"`
	// Go is the version of the compiler, and Platform its target, for example linux/amd64.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns the description of the program that runs.
func Get() Info {
	info := Info{
		Version: "v" + Number, Commit: commit, Date: date, Modified: modified == "true",
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if built, ok := debug.ReadBuildInfo(); ok && info.Commit == "" {
		info.noted(built)
	}
	return info
}

// noted takes the commit that `go build` notes by itself in a clone, for programs that somebody
// builds by hand.
func (i *Info) noted(built *debug.BuildInfo) {
	for _, setting := range built.Settings {
		switch setting.Key {
		case "vcs.revision":
			i.Commit = setting.Value
		case "vcs.time":
			i.Date = setting.Value
		case "vcs.modified":
			i.Modified = setting.Value == "true"
		}
	}
}

// String returns the description in one line.
func (i Info) String() string {
	source := "of an unknown commit"
	if len(i.Commit) >= 12 {
		source = "commit " + i.Commit[:12]
	}
	if i.Modified {
		source += " with changes"
	}
	if i.Date != "" {
		source += " of " + i.Date
	}
	return fmt.Sprintf("%s, %s, %s %s", i.Version, source, i.Go, i.Platform)
}

// Metric is the gauge whose labels are Labels, in the metrics of the operator and of the daemons.
const (
	Metric     = "alioth_build_info"
	MetricHelp = "1, with the release and the commit of the program as labels."
)

// Labels returns the description as labels of Metric.
func (i Info) Labels() map[string]string {
	return map[string]string{"version": i.Version, "revision": cmp.Or(i.Commit, "unknown"), "goversion": i.Go}
}
