// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
)

func tenantConfigContent(t *testing.T, config *danmv1.TenantConfig) map[string]any {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func hostDevice(name string, kind danmv1.VNIType, numbers string) func(*danmv1.TenantConfig) {
	return func(c *danmv1.TenantConfig) {
		c.HostDevices = append(c.HostDevices, danmv1.HostDevice{Name: name, VNIType: kind, VNIRange: numbers})
	}
}

// share returns an entry for tenants, with ranges.
func share(tenants []string, cidrs ...string) func(*danmv1.TenantConfig) {
	return func(c *danmv1.TenantConfig) {
		c.HostDevices = append(c.HostDevices, danmv1.HostDevice{Name: "ens4", Tenants: tenants, CIDRs: cidrs})
	}
}

func networkIDs(ids map[string]danmv1.NetworkID) func(*danmv1.TenantConfig) {
	return func(c *danmv1.TenantConfig) { c.NetworkIDs = ids }
}

// TestTenantConfig_WrongValue_Refused has the cases 66-73 of DANM's own tests. Expressed otherwise:
//   - 71: VLANs and VXLANs have greatest numbers of their own, and not 5000 for both.
//   - 72 (UPDATE): alloc is ignored; nothing is written into the object.
//   - 74 is refused by an admission policy, because the type is a key (test/api/admission).
func TestTenantConfig_WrongValue_Refused(t *testing.T) {
	const (
		together = "vniType and vniRange must be set together"
		numbers  = "the numbers in vniRange must be 1 to 4094 with vniType vlan, 1 to 16777214 with vxlan"
		form     = "hostDevices[0].vniRange"
		cidrs    = "each entry of cidrs must be a canonical CIDR"
	)
	vlan, vxlan := danmv1.VNITypeVLAN, danmv1.VNITypeVXLAN
	c := newClient(t)
	for _, tt := range []struct {
		name   string
		mutate func(*danmv1.TenantConfig)
		want   string
	}{
		{"rule 1, case 66: nothing", func(*danmv1.TenantConfig) {}, "hostDevices or networkIds must have an entry"},
		{"rule 1, empty lists", func(c *danmv1.TenantConfig) {
			c.HostDevices, c.NetworkIDs = []danmv1.HostDevice{}, map[string]danmv1.NetworkID{}
		}, "hostDevices or networkIds must have an entry"},
		{"rule 1, devices", hostDevice("ens4", "", ""), ""},
		{"rule 1, NetworkIDs", networkIDs(map[string]danmv1.NetworkID{"flannel": "flannel"}), ""},
		{"case 67: no name", hostDevice("", vlan, "1-2"), "hostDevices[0].name"},
		{"a pool", hostDevice("nokia.k8s.io/sriov_ens1f0", vlan, "1500-1550"), ""},
		{"a path", hostDevice("../../all", "", ""), "hostDevices[0].name"},
		{"a device whose name is too long", hostDevice(strings.Repeat("e", 16), "", ""), "hostDevices[0].name"},
		{"rule 2, case 68: a type without numbers", hostDevice("ens4", vlan, ""), together},
		{"rule 2, case 68: numbers without a type", hostDevice("ens4", "", "700-710"), together},
		{"case 69: another type", hostDevice("ens4", "vxlan2", "700-710"), "Unsupported value"},
		{"case 70: a number that is none", hostDevice("ens4", vxlan, "700-71a0"), form},
		{"numbers and ranges", hostDevice("ens4", vlan, "2000-2500,2601,2650-2700"), ""},
		{"a range without an end", hostDevice("ens4", vlan, "2000-"), form},
		{"an empty part", hostDevice("ens4", vlan, "2000,,2001"), form},
		{"three ends", hostDevice("ens4", vlan, "1-2-3"), form},
		{"a blank", hostDevice("ens4", vlan, "1, 2"), form},
		{"case 71: a VXLAN above 5000", hostDevice("ens4", vxlan, "900-4999,5001"), ""},
		{"case 71: VLANs up to the last", hostDevice("ens4", vlan, "900-4000,4094"), ""},
		{"case 71: a VLAN above", hostDevice("ens4", vlan, "900-4000,4095"), numbers},
		{"a range of VLANs that ends above", hostDevice("ens4", vlan, "900-5000"), numbers},
		{"the greatest VXLAN", hostDevice("ens4", vxlan, "16777214"), ""},
		{"a VXLAN above", hostDevice("ens4", vxlan, "16777215"), numbers},
		{"0", hostDevice("ens4", vlan, "0-5"), numbers},
		{"the number of another device", func(c *danmv1.TenantConfig) {
			hostDevice("ens4", vxlan, "5000")(c)
			hostDevice("ens5", vlan, "5000")(c)
		}, numbers},
		{"case 72: a record", func(c *danmv1.TenantConfig) {
			c.HostDevices = []danmv1.HostDevice{{Name: "ens4", VNIType: vlan, VNIRange: "1-2", Alloc: "gAAA"}}
		}, "hostDevices must have no alloc in a new TenantConfig"},
		{"rule 3, case 73: no NetworkID", networkIDs(map[string]danmv1.NetworkID{"flannel": ""}), "networkIds.flannel"},
		{"rule 3, case 73: no type", networkIDs(map[string]danmv1.NetworkID{"": "asd"}), "each entry of networkIds must have a NetworkType as its key"},
		{"a share of tenants", share([]string{"shop", "ns:default"}, "10.1.0.0/16", "fd01::/48"), ""},
		{"a tenant without a name", share([]string{""}), "hostDevices[0].tenants[0]"},
		{"a tenant twice", share([]string{"shop", "shop"}), "Duplicate value"},
		{"a range that is none", share(nil, "10.1.0.0"), cidrs},
		{"a range with host bits", share(nil, "10.1.0.1/16"), cidrs},
		{"a NetworkID that is a path", networkIDs(map[string]danmv1.NetworkID{"flannel": "../../etc/evil"}), "networkIds.flannel"},
	} {
		for _, group := range bothGroups {
			t.Run(tt.name+"/"+group, func(t *testing.T) {
				config := new(danmv1.TenantConfig)
				tt.mutate(config)
				object := danmObject(t, group, "TenantConfig", "config", tenantConfigContent(t, config))
				check(t, c.Create(t.Context(), object, client.DryRunAll), tt.want)
			})
		}
	}
}

func TestTenantConfig_UnknownField_Refused(t *testing.T) {
	c := newClient(t)
	for _, group := range bothGroups {
		config := new(danmv1.TenantConfig)
		hostDevice("ens4", "", "")(config)
		object := danmObject(t, group, "TenantConfig", "unknown", tenantConfigContent(t, config))
		object.Object["extra"] = "x"
		err := c.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "extra"`) {
			t.Errorf("TenantConfig of %s with an unknown field: %v", group, err)
		}
	}
}

// TestTenantConfig_RecordOfDANM_Accepted is the rest of case 72.
func TestTenantConfig_RecordOfDANM_Accepted(t *testing.T) {
	c := newClient(t)
	for _, group := range bothGroups {
		config := new(danmv1.TenantConfig)
		hostDevice("ens4", danmv1.VNITypeVLAN, "1-2")(config)
		object := danmObject(t, group, "TenantConfig", "record", tenantConfigContent(t, config))
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { deleteIt(t, c, object) })
		config.HostDevices[0].Alloc = "gAAA"
		hostDevice("ens5", danmv1.VNITypeVXLAN, "5-9")(config)
		changed := danmObject(t, group, "TenantConfig", "record", tenantConfigContent(t, config))
		changed.SetResourceVersion(object.GetResourceVersion())
		check(t, c.Update(t.Context(), changed, client.DryRunAll), "")
	}
}
