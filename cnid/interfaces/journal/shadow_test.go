// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"net/netip"
	"path/filepath"
	"testing"
)

func TestShadow_Node_HasFirstAddress(t *testing.T) {
	for prefix, want := range map[string]string{
		"169.254.64.0/18":          "169.254.64.1",
		"fd41:6c69:6f74:6801::/64": "fd41:6c69:6f74:6801::1",
	} {
		if got := NodeShadow(netip.MustParsePrefix(prefix)); got.String() != want {
			t.Errorf("NodeShadow(%s) = %s, want %s", prefix, got, want)
		}
	}
	if got := NodeShadow(netip.Prefix{}); got.IsValid() {
		t.Errorf("NodeShadow of no range = %s", got)
	}
}

func TestShadow_EachFamily_MatchesAddresses(t *testing.T) {
	for _, tc := range []struct {
		name       string
		addrs      []string
		s4, s6     string
		no4, no6   bool
		has4, has6 bool
	}{
		{name: "both", addrs: []string{"10.0.0.5/24", "fd00::5/64"}, s4: "169.254.64.2", s6: "fd41:6c69:6f74:6801::2"},
		{name: "four", addrs: []string{"10.0.0.5/24"}, s4: "169.254.64.2", s6: "invalid IP"},
		{name: "six", addrs: []string{"fd00::5/64"}, s4: "invalid IP", s6: "fd41:6c69:6f74:6801::2"},
		{name: "no range for six", addrs: []string{"10.0.0.5/24", "fd00::5/64"}, no6: true, s4: "169.254.64.2", s6: "invalid IP"},
		{name: "no ranges", addrs: []string{"10.0.0.5/24"}, no4: true, no6: true, s4: "invalid IP", s6: "invalid IP"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
			if tc.no4 {
				cfg.Shadow4 = netip.Prefix{}
			}
			if tc.no6 {
				cfg.Shadow6 = netip.Prefix{}
			}
			rec := begin(t, open(t, cfg), testRecord(1, tc.addrs...))
			if rec.Shadow4.String() != tc.s4 || rec.Shadow6.String() != tc.s6 {
				t.Errorf("got %s and %s, want %s and %s", rec.Shadow4, rec.Shadow6, tc.s4, tc.s6)
			}
		})
	}
}

func TestShadow_Released_UniqueAndRestsBeforeReuse(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	cfg.Shadow4 = netip.MustParsePrefix("169.254.64.0/29") // .2 to .6 for pods
	j := open(t, cfg)
	shadow := func(i int) string { return begin(t, j, testRecord(i)).Shadow4.String() }
	expect := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got shadow %s, want %s", got, want)
		}
	}
	expect(shadow(0), "169.254.64.2")
	expect(shadow(1), "169.254.64.3")
	if err := j.Retire(testRecord(0).Key); err != nil {
		t.Fatal(err)
	}
	expect(shadow(2), "169.254.64.4")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, cfg) // the cursor is on disk
	expect(shadow(3), "169.254.64.5")
	expect(shadow(4), "169.254.64.6")
	expect(shadow(5), "169.254.64.2")
	if _, err := j.Begin(testRecord(6)); !errors.Is(err, ErrShadowsExhausted) {
		t.Errorf("with all given out: got %v, want ErrShadowsExhausted", err)
	}
	if err := j.Retire(testRecord(1).Key); err != nil {
		t.Fatal(err)
	}
	expect(shadow(6), "169.254.64.3")
}

func TestShadow_RangeChanged_UsedOnesKept(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	j := open(t, cfg)
	old := begin(t, j, testRecord(1))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Shadow4 = netip.MustParsePrefix("169.254.64.0/30") // .2 alone, which is in use
	j = open(t, cfg)
	if _, err := j.Begin(testRecord(2)); !errors.Is(err, ErrShadowsExhausted) {
		t.Errorf("got %v, want ErrShadowsExhausted", err)
	}
	if rec, err := j.Get(old.Key); err != nil || rec.Shadow4 != old.Shadow4 {
		t.Errorf("the old attachment has %s, %v", rec.Shadow4, err)
	}
}

func TestShadow_AdoptedAttachment_KeptUnlessTaken(t *testing.T) {
	j := open(t, testConfig(filepath.Join(t.TempDir(), "journal.log")))
	first := begin(t, j, testRecord(1))
	for i, tc := range []struct {
		name             string
		shadow4, shadow6 string
		kept             bool
	}{
		{"its own", "169.254.70.7", "fd41:6c69:6f74:6801::607", true},
		{"one is another's", first.Shadow4.String(), "fd41:6c69:6f74:6801::608", false},
		{"out of the range", "169.254.1.1", "fd41:6c69:6f74:6801::609", false},
		{"the node's", "169.254.64.1", "fd41:6c69:6f74:6801::60a", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := testRecord(10 + i)
			rec.Shadow4, rec.Shadow6 = netip.MustParseAddr(tc.shadow4), netip.MustParseAddr(tc.shadow6)
			got, err := j.Adopt(rec, Device{HostIfindex: 7})
			if err != nil {
				t.Fatal(err)
			}
			if kept := got.Shadow4 == rec.Shadow4 && got.Shadow6 == rec.Shadow6; kept != tc.kept || !got.Shadow4.IsValid() || !got.Shadow6.IsValid() {
				t.Errorf("it has %s and %s", got.Shadow4, got.Shadow6)
			}
			if got.Phase != PhaseDone || got.Device.HostIfindex != 7 {
				t.Errorf("it is %s on %+v", got.Phase, got.Device)
			}
			if _, err := j.Adopt(rec, Device{}); !errors.Is(err, ErrExists) {
				t.Errorf("adopted again: %v", err)
			}
		})
	}
}

func TestShadow_RecordsBegunTogether_Different(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	cfg.Shadow4 = netip.MustParsePrefix("169.254.64.0/29") // .2 to .6
	j := open(t, cfg)
	var five []Record
	for i := range 5 {
		five = append(five, testRecord(i))
	}
	if _, err := j.BeginAll(append([]Record{testRecord(5)}, five...)); !errors.Is(err, ErrShadowsExhausted) || len(j.Records()) != 0 {
		t.Errorf("one too many: %v, and %d records", err, len(j.Records()))
	}
	begun, err := j.BeginAll(five)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[netip.Addr]bool{}
	for _, rec := range begun {
		seen[rec.Shadow4] = true
	}
	if len(seen) != len(five) {
		t.Errorf("%d records have the shadows %v", len(five), seen)
	}
}
