// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var compareAddrs = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

// fixed is a clock that stands.
type fixed time.Time

// Now implements Clock.
func (f fixed) Now() time.Time { return time.Time(f) }

func testConfig(path string) Config {
	return Config{
		Path:    path,
		Shadow4: netip.MustParsePrefix("169.254.64.0/18"),
		Shadow6: netip.MustParsePrefix("fd41:6c69:6f74:6801::/64"),
		Clock:   fixed(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		Log:     slog.New(slog.DiscardHandler),
	}
}

func open(t testing.TB, cfg Config) *Journal {
	t.Helper()
	j, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open journal: %v", err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func testRecord(i int, addrs ...string) Record {
	if len(addrs) == 0 {
		addrs = []string{"10.10.1.7/24", "fd10:10:0:1::7/64"}
	}
	rec := Record{
		Identity: Identity{
			Key:        Key{ContainerID: fmt.Sprintf("c%04d", i), IfName: "eth0"},
			Pod:        Pod{Namespace: "customer-a", Name: fmt.Sprintf("web-%d", i), UID: fmt.Sprintf("uid-%d", i)},
			CNINetwork: "alioth",
			NetnsPath:  "/var/run/netns/x",
			Attachment: "eth0",
		},
		Binding:   Binding{VPC: "vpc-1", VNI: 7},
		Interface: Interface{Kind: "veth", HostIfName: "alv0", MAC: MAC{2, 0, 10, 10, 1, 7}, Config: netif.Config{MTU: 1450}},
	}
	for _, a := range addrs {
		rec.Addrs = append(rec.Addrs, netip.MustParsePrefix(a))
		rec.Gateways = append(rec.Gateways, netip.MustParsePrefix(a).Masked().Addr().Next())
	}
	return rec
}

func begin(t testing.TB, j *Journal, rec Record) Record {
	t.Helper()
	rec, err := j.Begin(rec)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	return rec
}

func TestJournal_EachPhase_SurvivesReopening(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	j := open(t, cfg)
	want := begin(t, j, testRecord(1))
	dev := Device{HostIfindex: 12, NetnsInode: 4026532000, NetnsCookie: 99}

	steps := []struct {
		name           string
		do             func(*Journal) error
		change         func(*Record)
		attached, gone bool
	}{
		{"nothing", func(*Journal) error { return nil }, func(*Record) {}, true, false},
		{"complete", func(j *Journal) error { _, err := j.Complete(want.Key, dev); return err }, func(r *Record) { r.Phase, r.Device = PhaseDone, dev }, true, false},
		{"resize", func(j *Journal) error { _, err := j.Resize(want.Key, 1230); return err }, func(r *Record) { r.MTU = 1230 }, true, false},
		{"leave", func(j *Journal) error { _, err := j.Leave(want.Key); return err }, func(r *Record) { r.Phase = PhaseLeaving }, true, false},
		{"retire", func(j *Journal) error { return j.Retire(want.Key) }, func(*Record) {}, false, false},
		{"released", func(j *Journal) error { return j.Released(want.Seq) }, func(*Record) {}, false, true},
		{"released again", func(j *Journal) error { return j.Released(want.Seq) }, func(*Record) {}, false, true},
	}
	for _, step := range steps {
		if err := step.do(j); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		step.change(&want)
		if err := j.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		j = open(t, cfg)
		var records, releases []Record
		switch {
		case step.attached:
			records = []Record{want}
		case !step.gone:
			releases = []Record{want}
		}
		if diff := cmp.Diff(records, j.Records(), compareAddrs); diff != "" {
			t.Errorf("records after %s (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(releases, j.Releases(), compareAddrs); diff != "" {
			t.Errorf("releases after %s (-want +got):\n%s", step.name, diff)
		}
		if j.Damaged() != "" {
			t.Errorf("after %s the journal calls itself damaged", step.name)
		}
	}
}

func TestJournal_UnknownAndRepeatedAttachments_SentinelErrors(t *testing.T) {
	j := open(t, testConfig(filepath.Join(t.TempDir(), "journal.log")))
	rec := begin(t, j, testRecord(1))
	other := Key{ContainerID: "nobody", IfName: "eth0"}
	_, err := j.Begin(testRecord(1))
	if !errors.Is(err, ErrExists) {
		t.Errorf("Begin again: got %v, want ErrExists", err)
	}
	for name, f := range map[string]func() error{
		"Get":      func() error { _, err := j.Get(other); return err },
		"Complete": func() error { _, err := j.Complete(other, Device{}); return err },
		"Leave":    func() error { _, err := j.Leave(other); return err },
		"Retire":   func() error { return j.Retire(other) },
	} {
		if err := f(); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of an unknown attachment: got %v, want ErrNotFound", name, err)
		}
	}
	if got, err := j.Get(rec.Key); err != nil || got.Phase != PhaseIntended {
		t.Errorf("Get: %v, %v", got.Phase, err)
	}
}

func TestJournal_Records_OldestFirst(t *testing.T) {
	j := open(t, testConfig(filepath.Join(t.TempDir(), "journal.log")))
	for _, i := range []int{5, 3, 9, 1} {
		begin(t, j, testRecord(i))
	}
	if err := j.Retire(testRecord(3).Key); err != nil {
		t.Fatal(err)
	}
	begin(t, j, testRecord(3))
	var got []string
	for _, rec := range j.Records() {
		got = append(got, rec.ContainerID)
	}
	if diff := cmp.Diff([]string{"c0005", "c0009", "c0001", "c0003"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestJournal_SecondProcess_WaitsWithReason(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	first := open(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("second open: got %v, want a deadline", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, cfg)
}

func TestJournal_NewerRelease_LeftAlone(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	if err := open(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"format":%d}`, formatVersion+1)
	if err := os.WriteFile(cfg.Path, fmt.Appendf(nil, "%s %s\n", checksum([]byte(text)), text), 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(cfg.Path)
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrNewerFormat) {
		t.Fatalf("got %v, want ErrNewerFormat", err)
	}
	after, _ := os.ReadFile(cfg.Path)
	if string(before) != string(after) {
		t.Error("the file changed")
	}
}

func TestJournal_ConcurrentBegins_AllStoredWithOwnShadows(t *testing.T) {
	const many = 60
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	j := open(t, cfg)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			if _, err := j.Begin(testRecord(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	seqs, shadows := map[uint64]bool{}, map[netip.Addr]bool{}
	for _, rec := range open(t, cfg).Records() {
		seqs[rec.Seq], shadows[rec.Shadow4], shadows[rec.Shadow6] = true, true, true
	}
	if len(seqs) != many || len(shadows) != 2*many {
		t.Errorf("%d attachments and %d shadows, want %d and %d", len(seqs), len(shadows), many, 2*many)
	}
}

func TestJournal_ContainerAndPodRecords_FoundInOrder(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	j := open(t, cfg)
	for i, key := range []Key{{"b", "eth0"}, {"a", "eth1"}, {"a", "eth0"}} {
		rec := testRecord(i, fmt.Sprintf("10.10.1.%d/24", i+1))
		rec.Key, rec.Pod.UID = key, "pod-"+key.ContainerID
		begin(t, j, rec)
	}
	want := func(container string, names ...string) {
		t.Helper()
		for of, list := range map[string][]Record{"container": j.OfContainer(container), "pod": j.OfPod("pod-" + container)} {
			var got []string
			for _, rec := range list {
				got = append(got, rec.IfName)
			}
			if !slices.Equal(got, names) {
				t.Errorf("of %s %s are %v, want %v", of, container, got, names)
			}
		}
	}
	want("a", "eth1", "eth0")
	want("b", "eth0")
	want("c")
	if _, err := j.Leave(Key{"a", "eth1"}); err != nil {
		t.Fatal(err)
	}
	want("a", "eth1", "eth0")
	if err := j.Retire(Key{"a", "eth1"}); err != nil {
		t.Fatal(err)
	}
	want("a", "eth0")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, cfg)
	want("a", "eth0")
	want("b", "eth0")
}
