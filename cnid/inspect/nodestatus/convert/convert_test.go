// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus/convert"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
)

var compareByValue = cmp.Options{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

// filled returns a value without a zero field, each list with one element. No two fields
// of a type are equal, but for booleans.
func filled[T any](t *testing.T) (value T) {
	t.Helper()
	fill(t, reflect.ValueOf(&value).Elem(), new(uint8))
	return value
}

func fill(t *testing.T, v reflect.Value, last *uint8) {
	t.Helper()
	*last++
	ip := netip.AddrFrom4([4]byte{10, 10, 1, *last})
	switch v.Interface().(type) {
	case netip.Addr:
		v.Set(reflect.ValueOf(ip))
		return
	case netip.Prefix:
		v.Set(reflect.ValueOf(netip.PrefixFrom(ip, 24)))
		return
	case netif.VF: // its words have few values
		v.Set(reflect.ValueOf(netif.VF{
			SpoofCheck: netif.On, Trust: netif.Off, LinkState: "auto", Proto: "802.1ad", QoS: new(3), MinTxRate: new(4), MaxTxRate: new(5),
		}))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(*last), 0).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), last)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), last)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), last)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), last)
		}
	case reflect.Map:
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, last)
		fill(t, element, last)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, element)
	case reflect.String:
		v.SetString(fmt.Sprint("text", *last))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*last))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*last))
	default:
		t.Fatalf("no value for a %s", v.Type())
	}
}

// zero returns the path of a zero field, or "".
func zero(path string, v reflect.Value) string {
	if v.IsZero() {
		return path
	}
	switch v.Interface().(type) {
	case netip.Addr, netip.Prefix, time.Time:
		return ""
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if at := zero(path+"."+v.Type().Field(i).Name, v.Field(i)); at != "" {
				return at
			}
		}
	case reflect.Pointer:
		return zero(path, v.Elem())
	case reflect.Slice:
		return zero(path+"[0]", v.Index(0))
	}
	return ""
}

// journey sends a value over the wire.
func journey[T any](t *testing.T, in T) (out T) {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNodeStatusConvert_Record_RoundTripEqual(t *testing.T) {
	want := []journal.Record{filled[journal.Record](t), {}}
	got := convert.Records(journey(t, convert.Attachments(want)))
	if diff := cmp.Diff(want, got, compareByValue); diff != "" {
		t.Errorf("records (-before +after):\n%s", diff)
	}
}

// An aliothctl of the last release reads attachments as records of the journal.
func TestNodeStatusConvert_Attachment_WrittenLikeRecord(t *testing.T) {
	records := []journal.Record{filled[journal.Record](t), {}}
	want, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(convert.Attachments(records))
	if err != nil {
		t.Fatal(err)
	}
	var before, after any
	if json.Unmarshal(want, &before) != nil || json.Unmarshal(got, &after) != nil || !cmp.Equal(before, after) {
		t.Errorf("JSON (-record +attachment):\n%s", cmp.Diff(before, after))
	}
}

func TestNodeStatusConvert_Settings_RoundTripEqual(t *testing.T) {
	want := filled[plan.Config](t)
	if diff := cmp.Diff(want, convert.Config(journey(t, convert.Settings(want))), compareByValue); diff != "" {
		t.Errorf("configuration (-before +after):\n%s", diff)
	}
	// The last release wrote and reads the names of the fields as they are.
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var read nodestatus.Settings
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(convert.Settings(want), read, compareByValue); diff != "" {
		t.Errorf("as the last release writes them (-want +got):\n%s", diff)
	}
}

func TestNodeStatusConvert_EachProgram_Included(t *testing.T) {
	programs := journey(t, convert.Programs(filled[hook.Attached](t)))
	if at := zero("programs", reflect.ValueOf(programs)); at != "" {
		t.Errorf("%s is not set", at)
	}
}

func TestWireTypes_Imports_NoDaemonPackage(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/alioth-net/alioth/cnid/inspect/nodestatus").CombinedOutput()
	if err != nil {
		t.Fatalf("list packages: %v: %s", err, out)
	}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		own, is := strings.CutPrefix(path, "github.com/alioth-net/alioth/")
		if is && !strings.HasPrefix(own, "api/") && own != "cnid/inspect/nodestatus" {
			t.Errorf("%s is imported", path)
		}
	}
}
