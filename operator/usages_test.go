// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// tenantSubnet makes a tenant with a VPC, a Network, and a Subnet of that range, all of that
// name. Each test has a range of its own: an address of another VPC's pod on the node is
// passed over, because both pods would have one Ethernet address.
func (r *rig) tenantSubnet(name, cidr string) (*v1alpha1.VPC, *v1alpha1.Subnet) {
	r.t.Helper()
	vpc, subnet := newVPC(name, []string{name}, "10.200.0.0/13"), newSubnet(name, name, "s", cidr)
	r.create(newNamespace(name, name), vpc, subnet, newNetwork(name, "n", name))
	return vpc, subnet
}

// gets schedules a pod, and waits for its address.
func (r *rig) gets(namespace, name, ip string) *corev1.Pod {
	r.t.Helper()
	pod := r.schedule(newPod(namespace, name, "n", ""), "node-1")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
	if held := r.held(string(pod.UID)); len(held) != 1 || held[0].Spec.IP != ip {
		r.t.Fatalf("pod %s holds %+v, want %s", name, held, ip)
	}
	return pod
}

// counts waits until the figures of a Subnet are these.
func (r *rig) counts(subnet string, used, free int64, cursors ...string) *v1alpha1.Usage {
	r.t.Helper()
	usage := usageOf(v1alpha1.UsageOfSubnet, subnet)
	sees(r, usage, func(u *v1alpha1.Usage) error {
		if u.Status.Used != used || u.Status.Free == nil || *u.Status.Free != free || !slices.Equal(u.Status.Cursors, cursors) {
			return fmt.Errorf("the figures are %+v; want %d used, %d free and cursors %v", u.Status, used, free, cursors)
		}
		return nil
	})
	return usage
}

// TestAddress_LaterOnes_SubnetAndVPCUnchanged: only the first address changes them, because every
// node watches both.
func TestAddress_LaterOnes_SubnetAndVPCUnchanged(t *testing.T) {
	const more = 20
	r := start(t)
	vpc, subnet := r.tenantSubnet("usagequiet", "10.201.1.0/24")
	sees(r, subnet, subnetReady(v1alpha1.ReadyReason))
	r.gets("usagequiet", "first", "10.201.1.2")
	sees(r, subnet, func(s *v1alpha1.Subnet) error {
		if !s.Status.InUse {
			return fmt.Errorf("the status is %+v, want the subnet in use", s.Status)
		}
		return nil
	})
	r.counts("usagequiet", 1, 252, "10.201.1.2")
	r.get(vpc)
	before := []string{vpc.ResourceVersion, subnet.ResourceVersion}
	for i := range more {
		r.gets("usagequiet", fmt.Sprintf("p%d", i), fmt.Sprintf("10.201.1.%d", 3+i))
	}
	r.counts("usagequiet", 1+more, 252-more, fmt.Sprintf("10.201.1.%d", 2+more))
	sees(r, usageOf(v1alpha1.UsageOfVPC, "usagequiet"), func(u *v1alpha1.Usage) error {
		if u.Status.Used != 1+more {
			return fmt.Errorf("%d addresses of the VPC are counted, want %d", u.Status.Used, 1+more)
		}
		return nil
	})
	r.get(vpc)
	r.get(subnet)
	if after := []string{vpc.ResourceVersion, subnet.ResourceVersion}; !slices.Equal(before, after) {
		t.Errorf("the versions of VPC and Subnet are %v, and were %v before %d addresses", after, before, more)
	}
}

func TestUsage_DeletedOrChanged_WrittenAgain(t *testing.T) {
	r := start(t)
	_, subnet := r.tenantSubnet("usagehurt", "10.202.1.0/24")
	r.gets("usagehurt", "first", "10.202.1.2")
	usage := r.counts("usagehurt", 1, 252, "10.202.1.2")
	r.delete(usage)
	r.counts("usagehurt", 1, 252, "10.202.1.2")
	change(r, usage, func(u *v1alpha1.Usage) {
		u.Status = v1alpha1.UsageStatus{Used: 99, Cursors: []string{"10.202.1.200"}}
		u.Spec = v1alpha1.UsageSpec{Kind: v1alpha1.UsageOfVPC, Name: "nobody"}
		u.OwnerReferences = nil
	})
	usage = r.counts("usagehurt", 1, 252, "10.202.1.2")
	r.get(subnet)
	if len(usage.OwnerReferences) != 1 || usage.OwnerReferences[0].UID != subnet.UID || usage.OwnerReferences[0].Kind != "Subnet" {
		t.Errorf("the owner is %+v, want the subnet %s", usage.OwnerReferences, subnet.UID)
	}
	r.gets("usagehurt", "second", "10.202.1.3")
}

// TestCursor_EarlierRelease_SearchContinues: it also continues at the cursor of an earlier operator
// of this release.
func TestCursor_EarlierRelease_SearchContinues(t *testing.T) {
	r := newRig(t)
	_, subnet := r.tenantSubnet("usageolder", "10.203.1.0/24")
	subnet.Status.Cursors = []string{"10.203.1.100"}
	if err := r.Status().Update(t.Context(), subnet); err != nil {
		t.Fatal(err)
	}
	stop := r.operate(testConfig())
	r.gets("usageolder", "first", "10.203.1.101")
	r.counts("usageolder", 1, 252, "10.203.1.101")
	sees(r, subnet, func(s *v1alpha1.Subnet) error {
		if len(s.Status.Cursors) > 0 {
			return fmt.Errorf("the status has cursors %v, which belong into the Usage", s.Status.Cursors)
		}
		return nil
	})
	stop()
	r.operate(testConfig())
	r.gets("usageolder", "second", "10.203.1.102")
}

// TestUsage_SubnetMadeAgain_TakenOverWithoutCursors: the cursors were of other ranges.
func TestUsage_SubnetMadeAgain_TakenOverWithoutCursors(t *testing.T) {
	r := newRig(t)
	stop := r.operate(testConfig())
	_, subnet := r.tenantSubnet("usageheir", "10.204.1.0/24")
	r.ends(r.gets("usageheir", "first", "10.204.1.2"))
	usage := r.counts("usageheir", 0, 253, "10.204.1.2")
	r.delete(subnet)
	r.gone(subnet)
	stop()
	heir := newSubnet("usageheir", "usageheir", "s", "10.204.1.0/24")
	r.create(heir)
	r.operate(testConfig())
	r.gets("usageheir", "second", "10.204.1.2")
	sees(r, &v1alpha1.Usage{ObjectMeta: metav1.ObjectMeta{Name: usage.Name}}, func(u *v1alpha1.Usage) error {
		if len(u.OwnerReferences) != 1 || u.OwnerReferences[0].UID != heir.UID {
			return fmt.Errorf("the owner is %+v, want %s", u.OwnerReferences, heir.UID)
		}
		return nil
	})
}
