// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reach_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/reach"
)

func TestParse_HostOrHostPort_TargetRead(t *testing.T) {
	for text, want := range map[string]reach.Target{
		"192.0.2.10":               {Host: "192.0.2.10"},
		"192.0.2.10:6443":          {Host: "192.0.2.10", Port: 6443},
		"::ffff:192.0.2.10":        {Host: "192.0.2.10"},
		"2001:db8::1":              {Host: "2001:db8::1"},
		"[2001:DB8::1]":            {Host: "2001:db8::1"},
		"[2001:db8::1]:65535":      {Host: "2001:db8::1", Port: 65535},
		"storage":                  {Host: "storage"},
		"1st.storage_a.example:80": {Host: "1st.storage_a.example", Port: 80},
		"example.com.":             {Host: "example.com."},
		"localhost:80":             {Host: "localhost", Port: 80},
	} {
		got, err := reach.Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := reach.Parse(got.String()); err != nil || again != got {
			t.Errorf("%s, written as %s, is %+v, %v", text, got, again, err)
		}
	}
}

func TestParse_WrongTarget_Refused(t *testing.T) {
	const form, port, group = "want HOST or HOST:PORT", "want a port from 1 to 65535", "want the address of one host"
	for text, want := range map[string]string{
		"": form, "a b": form, "-a": form, "a..b": form, "192.0.2.300": form, "192.0.2": form, "1": form, "http://a": port, "a/b": form,
		"[2001:db8::1": form, "2001:db8::1]:80": form, "2001:db8::g": form, "[storage]x:80": form, strings.Repeat("a.", 130) + "a": form,
		"a:0": port, "a:65536": port, "a:": port, "a:http": port, "a:-1": port,
		"0.0.0.0": group, "[::]:80": group, "224.0.0.1": group, "ff02::1": group, "255.255.255.255:7": group, "::ffff:239.1.1.1": group,
	} {
		if target, err := reach.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %q", text, target, err, want)
		}
	}
}

func TestParseList_WrongEntries_NamedByIndex(t *testing.T) {
	_, err := reach.ParseList("spec.reach", []string{"a", "b:0", "c", "0.0.0.0"})
	if err == nil || !strings.Contains(err.Error(), `spec.reach[1]: "b:0"`) || !strings.Contains(err.Error(), "spec.reach[3]: 0.0.0.0") ||
		strings.Contains(err.Error(), "[0]") {
		t.Errorf("got %v", err)
	}
	var many []string
	for n := range reach.Max + 1 {
		many = append(many, fmt.Sprint("host", n))
	}
	if _, err := reach.ParseList("--reach", many); err == nil || err.Error() != "--reach: 129 of them: want at most 128" {
		t.Errorf("got %v", err)
	}
	list, err := reach.ParseList("--reach", many[:reach.Max])
	if err != nil || !slices.Contains(list, reach.Target{Host: "host127"}) {
		t.Errorf("got %v, %v", list, err)
	}
}
