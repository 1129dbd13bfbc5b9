"""How findings are told to an operator."""

from __future__ import annotations

from collections.abc import AsyncIterator

from zaplake.finding import Finding


async def tell(findings: AsyncIterator[Finding]) -> int:
    """Prints each as it is found. The exit code: 1 when something needs the operator."""
    bad = 0
    async for finding in findings:
        if finding.is_well:
            print(f"ok    {finding.what}", flush=True)
        else:
            bad += 1
            print(f"WRONG {finding.what}\n      → {finding.next_step}", flush=True)
    return 1 if bad else 0
