"""Streams and events that run when they are told to."""

from __future__ import annotations

import torch

from staleloc.sim.targets.sglang.virtual import VirtualDevice, VirtualEvent, VirtualStream


def _rows(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def _issue(
    device: VirtualDevice, stream: VirtualStream, source: torch.Tensor, target: torch.Tensor, row: int
) -> VirtualEvent:
    """A copy of one row and an event after it."""
    event = device.Event(enable_timing=True)
    with device.stream(stream):
        device.copy([source], [target], _rows(row), _rows(row))
        event.record()
    return event


def test_a_copy_reads_what_is_there_when_its_stream_runs():
    device = VirtualDevice()
    source, target = torch.zeros(2), torch.zeros(2)
    event = _issue(device, device.Stream(), source, target, 1)
    source[1] = 7
    assert (target.tolist(), event.query(), device.pending()) == ([0, 0], False, 1)
    device.run_oldest()
    assert (target.tolist(), event.query(), device.pending()) == ([0, 7], True, 0)


def test_outside_a_stream_everything_is_at_once():
    device = VirtualDevice()
    target = torch.zeros(2)
    device.copy([torch.ones(2)], [target], _rows(0), _rows(1))
    event = device.Event()
    assert event.query()
    event.record()
    event.synchronize()
    assert event.query()
    assert target.tolist() == [0, 1]


def test_the_oldest_transfer_runs_first_whatever_its_stream():
    device = VirtualDevice()
    one, two = device.Stream(), device.Stream()
    target = torch.zeros(3)
    events = [_issue(device, stream, torch.ones(3), target, row) for row, stream in enumerate((two, one, two))]
    assert device.pending() == 3
    device.run_oldest()
    device.run_oldest()
    assert [event.query() for event in events] == [True, True, False]
    assert target.tolist() == [1, 1, 0]


def test_copies_between_two_events_are_one_transfer():
    device = VirtualDevice()
    stream, event = device.Stream(), device.Event()
    target = torch.zeros(2)
    with device.stream(stream):
        device.copy([torch.ones(2)], [target], _rows(0), _rows(0))
        device.copy([torch.ones(2)], [target], _rows(1), _rows(1))
        event.record()
    assert device.pending() == 1
    device.run_oldest()
    assert (target.tolist(), event.query()) == ([1, 1], True)


def test_who_waits_for_an_event_runs_its_stream_up_to_it():
    device = VirtualDevice()
    stream = device.Stream()
    target = torch.zeros(2)
    first = _issue(device, stream, torch.ones(2), target, 0)
    second = _issue(device, stream, torch.ones(2), target, 1)
    device.current_stream().wait_event(first)
    assert (first.query(), second.query(), target.tolist()) == (True, False, [1, 0])
    second.synchronize()
    assert target.tolist() == [1, 1]


def test_a_stream_that_waits_for_another_comes_after_it():
    device = VirtualDevice()
    one, two = device.Stream(), device.Stream()
    middle, target = torch.zeros(1), torch.zeros(1)
    first = _issue(device, one, torch.ones(1), middle, 0)
    two.wait_event(first)
    second = _issue(device, two, middle, target, 0)
    second.synchronize()
    assert (first.query(), target.tolist()) == (True, [1])


def test_an_event_recorded_again_is_the_later_one():
    device = VirtualDevice()
    stream, event = device.Stream(), device.Event()
    target = torch.zeros(2)
    for row in range(2):
        with device.stream(stream):
            device.copy([torch.ones(2)], [target], _rows(row), _rows(row))
            event.record()
    device.run_oldest()
    assert not event.query()
    device.run_all()
    assert event.query()


def test_a_reset_forgets_what_is_queued():
    device = VirtualDevice()
    target = torch.zeros(1)
    _issue(device, device.Stream(), torch.ones(1), target, 0)
    assert [copy.target_rows.tolist() for copy in device.queued()] == [[0]]
    device.reset()
    device.run_all()
    assert (list(device.queued()), device.pending(), target.tolist()) == ([], 0, [0])
