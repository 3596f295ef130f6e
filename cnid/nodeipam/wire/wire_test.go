// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

func TestWireCodes_EachCode_MatchesCNS(t *testing.T) {
	want := map[wire.ReturnCode]string{
		0: "Success", 2: "InvalidParameter", 3: "UnsupportedEnvironment", 14: "NotFound", 15: "AddressUnavailable",
		18: "UnknownContainerID", 21: "UnsupportedVerb", 23: "InvalidRequest", 29: "InconsistentIPConfigState",
		32: "FailedToAllocateIpConfig", 33: "EmptyOrchestratorContext", 34: "UnsupportedOrchestratorContext",
		40: "NilEndpointStateStore", 43: "UnsupportedAPI", 44: "FailedToAllocateBackendConfig", 45: "ConnectionError", 99: "UnexpectedError",
	}
	got := map[wire.ReturnCode]string{}
	for _, code := range wire.Codes() {
		got[code] = code.String()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	if !slices.IsSorted(wire.Codes()) || wire.ReturnCode(7).String() != "UnknownError" {
		t.Errorf("%v, %s", wire.Codes(), wire.ReturnCode(7))
	}
}

func TestWireRequest_Singular_EqualsPlural(t *testing.T) {
	const singular = `{"DesiredIPAddress":"192.0.2.7","PodInterfaceID":"c-eth0","InfraContainerID":"c","OrchestratorContext":{"PodName":"p"},"Ifname":"eth0"}`
	const plural = `{"desiredIPAddresses":["192.0.2.7"],"podInterfaceID":"c-eth0","infraContainerID":"c","orchestratorContext":{"PodName":"p"},"ifname":"eth0"}`
	var one wire.IPConfigRequest
	var many wire.IPConfigsRequest
	if err := json.Unmarshal([]byte(singular), &one); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(plural), &many); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(many, one.Plural()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	one.DesiredIPAddress = ""
	if got := one.Plural().DesiredIPAddresses; got != nil {
		t.Errorf("desired: %v", got)
	}
}

func TestWireNames_EachName_Checked(t *testing.T) {
	for _, tc := range []struct {
		name  string
		check func(string) error
		good  []string
		bad   []string
	}{
		{
			"container ID", wire.CheckContainerID,
			[]string{"a", "1", strings.Repeat("f", 64), strings.Repeat("f", 128), "a.b_c-d"},
			[]string{"", ".", "..", ".a", "-a", "_a", "a/b", "a:b", "a b", "a\n", "a\x00", "é", strings.Repeat("f", 129)},
		},
		{
			"podInterfaceID", wire.CheckPodInterfaceID,
			[]string{"", "12345678-eth0", strings.Repeat("f", 256)},
			[]string{"a\nb", "é", "a\x00", "\x1b[2J", strings.Repeat("f", 257)},
		},
		{
			"ifname", wire.CheckIfname,
			[]string{"", "eth0", "net1.5", strings.Repeat("e", 15)},
			[]string{".", "..", "a/b", "a:b", "a b", "a\tb", "a\xff", strings.Repeat("e", 16)},
		},
	} {
		for _, name := range tc.good {
			if err := tc.check(name); err != nil {
				t.Errorf("%s %q: %v", tc.name, name, err)
			}
		}
		for _, name := range tc.bad {
			if err := tc.check(name); err == nil {
				t.Errorf("%s %q is accepted", tc.name, name)
			} else if len(err.Error()) > 400 {
				t.Errorf("%s: a text of %d bytes", tc.name, len(err.Error()))
			}
		}
	}
}

func TestWireOperations_EachOperation_Complete(t *testing.T) {
	names, places := map[string]bool{}, map[string]bool{}
	for _, op := range wire.Operations() {
		place := op.Method + " " + op.Path
		if names[op.Name] || places[place] {
			t.Errorf("%s (%s) is there twice", op.Name, place)
		}
		names[op.Name], places[place] = true, true
		if op.Name == "" || op.Summary == "" || op.Response == nil || !strings.HasPrefix(op.Path, "/") {
			t.Errorf("%+v", op)
		}
		if (op.Request == nil) != (op.Method == http.MethodGet || op.Method == http.MethodDelete) {
			t.Errorf("%s has the request %T", place, op.Request)
		}
		for _, code := range op.Codes {
			if slices.Contains(wire.CommonCodes(), code) || code.String() == "UnknownError" {
				t.Errorf("%s: code %d", place, code)
			}
		}
	}
	for path := range wire.Refused() {
		if places["POST "+path] || places["GET "+path] {
			t.Errorf("%s is served and refused", path)
		}
	}
}
