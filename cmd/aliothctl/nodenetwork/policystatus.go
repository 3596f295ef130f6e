// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenetwork

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/store/client/kube"
)

// policyLine is the status of a policy.
type policyLine struct {
	kind, name              string
	status, reason, message string
	// conflict names the fields that others have, "" without a conflict.
	conflict string
}

// reportPolicies prints the status of all policies, and fails if one is Degraded.
func reportPolicies(cmd *cobra.Command, api *kube.Client) error {
	lines, err := policyLines(cmd.Context(), api)
	if err != nil {
		return err
	}
	if err := printPolicies(cmd.OutOrStdout(), lines); err != nil {
		return err
	}
	for _, line := range lines {
		if line.status == nmstatev1.DegradedCondition {
			cmd.SilenceErrors = true
			return errDegraded
		}
	}
	return nil
}

func policyLines(ctx context.Context, api *kube.Client) ([]policyLine, error) {
	var early nmstatev1.NodeNetConfPolicyList
	if err := api.List(ctx, &early, "", ""); err != nil {
		return nil, fmt.Errorf("list NodeNetConfPolicies: %w", err)
	}
	var today nmstatev1.NodeNetworkConfigurationPolicyList
	if err := api.List(ctx, &today, "", ""); err != nil {
		return nil, fmt.Errorf("list NodeNetworkConfigurationPolicies: %w", err)
	}
	var lines []policyLine
	for i := range early.Items {
		lines = append(lines, lineOf(nmstatev1.NodeNetConfPolicyKind, early.Items[i].Name, early.Items[i].Status.Conditions))
	}
	for i := range today.Items {
		lines = append(
			lines,
			lineOf(nmstatev1.NodeNetworkConfigurationPolicyKind, today.Items[i].Name, today.Items[i].Status.Conditions),
		)
	}
	return lines, nil
}

func lineOf(kind, name string, conditions []metav1.Condition) policyLine {
	line := policyLine{kind: kind, name: name}
	for _, one := range []string{
		nmstatev1.AvailableCondition, nmstatev1.DegradedCondition, nmstatev1.ProgressingCondition, nmstatev1.IgnoredCondition,
	} {
		if meta.IsStatusConditionTrue(conditions, one) {
			is := meta.FindStatusCondition(conditions, one)
			line.status, line.reason, line.message = is.Type, is.Reason, is.Message
		}
	}
	if meta.IsStatusConditionTrue(conditions, nmstatev1.ConflictCondition) {
		line.conflict = meta.FindStatusCondition(conditions, nmstatev1.ConflictCondition).Message
	}
	return line
}

func printPolicies(out io.Writer, lines []policyLine) error {
	if len(lines) == 0 {
		_, err := fmt.Fprintln(out, "There is no policy.")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		if _, err := fmt.Fprintf(table, "%s/%s\t%s\t%s\t%s\n", line.kind, line.name, line.status, line.reason, line.message); err != nil {
			return err
		}
		if line.conflict == "" {
			continue
		}
		if _, err := fmt.Fprintf(table, "\t%s\t%s\t%s\n", nmstatev1.ConflictCondition, nmstatev1.OverruledReason, line.conflict); err != nil {
			return err
		}
	}
	return table.Flush()
}
