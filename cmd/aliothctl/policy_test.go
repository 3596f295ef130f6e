// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
)

func TestPoliciesAreHandledOnceOrNotAtAll(t *testing.T) {
	cmd := newCommand("aliothctl", "policy", "handle")
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, errNotOnce) || exitStatus(err) != 2 {
		t.Errorf("error %v, exit status %d", err, exitStatus(err))
	}
}

func TestADegradedPolicyIsAFinding(t *testing.T) {
	if got := exitStatus(errDegraded); got != 1 {
		t.Errorf("exit status %d, want 1", got)
	}
}

func TestThePrintedStatusOfAPolicyIsTheConditionThatIsTrue(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "Because" + kind, Message: "of " + kind}
	}
	var text strings.Builder
	err := printPolicies(&text, []policyLine{
		lineOf(nmstatev1.NodeNetConfPolicyKind, "new", nil),
		lineOf(nmstatev1.NodeNetworkConfigurationPolicyKind, "blue", []metav1.Condition{
			condition(nmstatev1.AvailableCondition, metav1.ConditionFalse),
			condition(nmstatev1.DegradedCondition, metav1.ConditionTrue),
			condition(nmstatev1.ConflictCondition, metav1.ConditionTrue),
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for line := range strings.Lines(text.String()) {
		words = append(words, strings.Join(strings.Fields(line), " "))
	}
	want := "NodeNetConfPolicy/new\n" +
		"NodeNetworkConfigurationPolicy/blue Degraded BecauseDegraded of Degraded\n" +
		"Conflict Overruled of Conflict"
	if got := strings.Join(words, "\n"); got != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
	text.Reset()
	if err := printPolicies(&text, nil); err != nil || text.String() != "There is no policy.\n" {
		t.Errorf("printed %q (%v)", text.String(), err)
	}
}
