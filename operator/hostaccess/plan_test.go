// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostaccess

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// mostBytes is the largest object that the API server stores.
const mostBytes = 1 << 20

// TestGrants_ObjectTooLarge_OthersStored: an object at the limits of its definition,
// 256 tenants and 64 ports of every protocol, would make the grants too large to be stored.
func TestGrants_ObjectTooLarge_OthersStored(t *testing.T) {
	s := operatortest.New(t)
	large := &external.HostAccess{Meta: store.Meta{UID: "2", Created: time.Unix(2, 0)}, Name: "large"}
	for i := range 256 {
		large.AllowedTenants = append(large.AllowedTenants, fmt.Sprintf("tenant-%058d", i))
	}
	for i := range 64 {
		large.Ports = append(large.Ports, external.HostPortRange{First: uint16(10000 + i*100), Last: uint16(10050 + i*100)})
	}
	before := &external.HostAccess{Meta: store.Meta{UID: "1", Created: time.Unix(1, 0)}, Name: "z", AllowedTenants: []string{"blue"}, HostNetwork: true}
	after := &external.HostAccess{Meta: store.Meta{UID: "3", Created: time.Unix(3, 0)}, Name: "a", AllowedTenants: []string{"red"}, HostNetwork: true}
	if err := s.Update(func(tx store.Tx) error {
		for _, row := range []*external.HostAccess{before, large, after} {
			if err := external.PutHostAccess(tx, row); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var all map[string]v1alpha1.HostGrant
	var tooMany map[string]bool
	s.View(func(tx store.ReadTx) { all, tooMany = grants(tx) })
	if len(all) != 2 || !all["blue"].HostNetwork || !all["red"].HostNetwork || len(tooMany) != 1 || !tooMany["large"] {
		t.Errorf("%d tenants have grants, too many are those of %v; want those of large alone", len(all), tooMany)
	}
	if d := decide(large, true); d.IsReady() || d.Reason != v1alpha1.TooManyGrantsReason {
		t.Errorf("the status of large is %+v", d)
	}
}

// TestGrants_MostAndLongest_FitObject has as many as may be, with the longest texts.
func TestGrants_MostAndLongest_FitObject(t *testing.T) {
	all := map[string]v1alpha1.HostGrant{}
	for i := range mostGrants / 16 {
		grant := v1alpha1.HostGrant{HostNetwork: true}
		for range 15 {
			grant.Ports = append(grant.Ports, v1alpha1.HostPortRange{Protocol: "SCTP", First: 60000, Last: 65535})
		}
		all[fmt.Sprintf("tenant-%056d", i)] = grant
	}
	text, err := json.Marshal(v1alpha1.AdmissionGrants{HostAccess: all})
	if err != nil || len(text) > mostBytes {
		t.Errorf("%d bytes, want %d at most, error %v", len(text), mostBytes, err)
	}
}
