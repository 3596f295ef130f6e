// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cmd/aliothctl/options"
)

func TestVersions_ProgramAndOperator_SkewJudged(t *testing.T) {
	for _, c := range []struct {
		part              component
		program, operator string
		want              string
	}{
		{ofDaemon, "v0.1.0", "v0.1.0", ""},
		{ofDaemon, "v0.1.9", "v0.1.0", ""},
		{ofDaemon, "v0.1.0", "v0.2.0", ""},
		{ofDaemon, "v0.2.0", "v0.1.0", "upgrade the operator first"},
		{ofDaemon, "v0.1.0", "v0.3.0", "more than one minor version older"},
		{ofDaemon, "v1.1.0", "v0.1.0", "another major version"},
		{ofPlugin, "v0.2.0", "v0.1.7", "upgrade the operator first"},
		{ofPlugin, "v0.1.0-rc.1", "v0.1.0", ""},
		{ofDaemon, "v0.1.0", "v0.2.0-dev", ""},
		{ofDaemon, "v0.2.0-dev", "v0.1.0", "upgrade the operator first"},
		{ofClient, "v0.2.0-dev", "v0.1.0", ""},
		{ofClient, "v0.2.0", "v0.1.0", ""},
		{ofClient, "v0.3.0", "v0.1.0", "newer"},
		{ofClient, "v0.1.0", "v0.2.0", ""},
		{ofDaemon, "", "v0.1.0", "no version that can be compared"},
		{ofDaemon, "v0.1.0", "unknown", "no version that can be compared"},
	} {
		err := skew(c.part, c.program, c.operator)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s with operator %s: %v, want %q", c.part, c.program, c.operator, err, c.want)
		}
	}
}

func TestVersions_Unsupported_ToldAtRow(t *testing.T) {
	v := versions{
		Client:    version.Info{Version: "v0.2.0"},
		Operators: []operatorVersion{{Pod: "old", Version: "v0.2.0"}, {Pod: "silent", Problem: "no answer"}},
		Nodes: []nodeVersion{
			{Node: "equal", Daemon: "v0.2.0", Plugin: "v0.2.1"},
			{Node: "behind", Daemon: "v0.1.3", Plugin: "v0.1.3"},
			{Node: "ahead", Daemon: "v0.3.0", Plugin: "v0.2.0"},
			{Node: "silent", Problem: "no answer"},
		},
	}
	if !v.judge() {
		t.Error("all versions work together")
	}
	for i, want := range []string{"", "", "daemon v0.3.0 is newer than operator v0.2.0", "no answer"} {
		if got := v.Nodes[i].Problem; !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("node %s: %q, want %q", v.Nodes[i].Node, got, want)
		}
	}
	var out strings.Builder
	if err := v.write(&out, options.Text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"aliothctl", "operator old", "unknown: no answer", "upgrade the operator first", "behind"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	if v.Operators, v.Nodes = v.Operators[:1], v.Nodes[:2]; v.judge() {
		t.Errorf("equal or supported versions do not work together: %+v", v)
	}
	if v.Nodes[0].Plugin, v.Nodes[0].Problem = "", "the plugin is gone"; !v.judge() {
		t.Error("an unknown version works together with others")
	}
	if v.Operators = nil; !v.judge() || v.Nodes[1].Problem == "" {
		t.Errorf("without an operator all works together: %+v", v)
	}
}

func TestVersion_ClientOnly_NeedsNoCluster(t *testing.T) {
	cmd := newCommand("aliothctl")
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"version", "--client", "-o", "json"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got versions
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Client.Version != "v"+version.Number {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestReleased_ProgramOutput_VersionFound(t *testing.T) {
	for text, want := range map[string]string{
		"alioth-operator version v0.1.0, commit 0123456789ab of 2026-11-29T10:00:00Z, go1.26 linux/amd64\n": "v0.1.0",
		version.Get().String():              "v" + version.Number,
		"v1.2.3-rc.1, of an unknown commit": "v1.2.3-rc.1",
		"CNI plugin alioth":                 "",
	} {
		if got := released(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
