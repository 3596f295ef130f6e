// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// TestFrontendEqual_EachField_OnlyAllEqual changes each field, so that none is forgotten that
// is added one day.
func TestFrontendEqual_EachField_OnlyAllEqual(t *testing.T) {
	for field := range reflect.TypeFor[Frontend]().NumField() {
		a, b := Frontend{}, Frontend{}
		if !a.Equal(&b) {
			t.Fatal("two that are the same are not equal")
		}
		at := reflect.ValueOf(&b).Elem().Field(field)
		switch value := at.Addr().Interface().(type) {
		case *uint8:
			*value++
		case *uint16:
			*value++
		case *uint32:
			*value++
		case *time.Duration:
			*value += time.Second
		case *bool:
			*value = !*value
		case *netip.Addr:
			*value = netip.MustParseAddr("192.0.2.1")
		case *[]netip.AddrPort:
			*value = []netip.AddrPort{netip.MustParseAddrPort("169.254.64.5:80")}
		case *[]netip.Prefix:
			*value = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		default:
			t.Fatalf("how to change a %s?", at.Type())
		}
		if name := reflect.TypeFor[Frontend]().Field(field).Name; a.Equal(&b) || b.Equal(&a) {
			t.Errorf("frontends with another %s are equal", name)
		}
	}
	if a, b := (&Frontend{}), (&Frontend{Sources: []netip.Prefix{}}); a.Equal(b) {
		t.Error("a frontend that everybody may ask equals one that nobody may")
	}
}
